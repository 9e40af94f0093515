// Builds the bundles that gpurun embeds. With --check, it only reports whether the existing
// bundles match the sources. The same sources and lock file always give the same bytes.
import { build } from 'esbuild';
import { createHash } from 'node:crypto';
import { mkdir, readFile, readdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

// Each bundle is src/NAME/main.tsx with its imports, as NAME.js and NAME.css.
const bundles = [
  { name: 'page', to: '../web/bundle' },
  { name: 'report', to: '../report/bundle' },
];

// The file with the digests of sources and outputs. A test compares them to detect outdated
// bundles without Node.js.
const sums = 'bundles.sum';
const check = process.argv.includes('--check');
process.chdir(path.dirname(fileURLToPath(import.meta.url)));

const outputs = new Map();
for (const { name, to } of bundles) {
  const { outputFiles } = await build({
    entryPoints: [`src/${name}/main.tsx`],
    bundle: true, minify: true, write: false, outdir: 'out', entryNames: name,
    format: 'iife', target: 'es2022', charset: 'utf8', legalComments: 'none',
    jsx: 'transform', jsxFactory: 'createElement', jsxFragment: 'Fragment', inject: ['src/common/jsx.ts'], logLevel: 'warning',
    define: { 'process.env.NODE_ENV': '"production"' },
  });
  for (const f of outputFiles) outputs.set(`${to}/${path.basename(f.path)}`, f.contents);
}

const all = await readdir('src', { recursive: true, withFileTypes: true });
const sources = all.filter((e) => e.isFile() && e.name !== 'types.ts') // generated from Go; contains only types, which no bundle includes
  .map((e) => path.join(e.parentPath ?? e.path, e.name));
const lines = new Map();
const line = (file, contents) => lines.set(file, `${createHash('sha256').update(contents).digest('hex')}  ${file}\n`);
for (const file of [...sources, 'build.mjs', 'package.json', 'package-lock.json']) line(file, await readFile(file));
for (const [file, contents] of outputs) line(file, contents);
outputs.set(sums, Buffer.from([...lines.keys()].sort().map((f) => lines.get(f)).join('')));

let stale = 0;
for (const [file, contents] of outputs) {
  const there = await readFile(file).catch(() => null);
  if (there && Buffer.compare(there, Buffer.from(contents)) === 0) continue;
  if (check) {
    console.error(`${file} is not what its sources give: run make web`);
    stale = 1;
  } else {
    await mkdir(path.dirname(file), { recursive: true });
    await writeFile(file, contents);
    console.log(`${file} ${(contents.length / 1024).toFixed(1)} KiB`);
  }
}
process.exit(stale);
