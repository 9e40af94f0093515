// Controls Chromium for the tests of `make browser`.
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import path from 'node:path';
import puppeteer from 'puppeteer-core';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

// The widths and themes in which everything must work.
export const looks = [
  { width: 1280, height: 900, dark: false }, { width: 1280, height: 900, dark: true },
  { width: 768, height: 1024, dark: false }, { width: 768, height: 1024, dark: true },
  { width: 400, height: 800, dark: false }, { width: 400, height: 800, dark: true },
];

export const shots = process.env.SCREENSHOTS || mkdtempSync(path.join(tmpdir(), 'gpurun-screenshots-'));
mkdirSync(shots, { recursive: true });

// launch starts Chromium. Containers run it as root, for which its sandbox is not available.
export async function launch() {
  return puppeteer.launch({
    executablePath: process.env.CHROMIUM || '/usr/bin/chromium',
    args: ['--disable-gpu', ...(process.getuid() === 0 ? ['--no-sandbox'] : [])],
  });
}

// prefer gives the processes of a browser, which have their own session, priority over everything else
// on this machine, so that timings measure the page. It returns false if this needs root.
export function prefer(browser) {
  try {
    writeFileSync(`/proc/${browser.process().pid}/autogroup`, '-15');
    return true;
  } catch {
    return false;
  }
}

// open opens a URL, and collects faults: errors, warnings, dialogs, and requests that `mayAsk` does not
// allow.
export async function open(browser, url, { width, height, dark } = looks[0], mayAsk = () => false) {
  const page = await browser.newPage();
  const faults = [];
  page.on('console', (m) => { if (m.type() === 'error' || m.type() === 'warn') faults.push(`console: ${m.text()}`); });
  page.on('pageerror', (e) => faults.push(`error: ${e.message}`));
  page.on('dialog', (d) => { faults.push(`dialog: ${d.message()}`); d.dismiss(); });
  page.on('request', (r) => { if (r.url() !== url && !r.url().startsWith('data:') && !mayAsk(r.url())) faults.push(`request: ${r.url()}`); });
  await page.setViewport({ width, height });
  await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: dark ? 'dark' : 'light' }]);
  const began = performance.now();
  await page.goto(url, { waitUntil: 'load', timeout: 60_000 });
  return { page, faults, loaded: performance.now() - began };
}

// shoot takes a screenshot and returns its file.
export async function shoot(page, name, { width, dark }, fullPage = false) {
  const file = path.join(shots, `${name}-${width}-${dark ? 'dark' : 'light'}.png`);
  await page.screenshot({ path: file, fullPage });
  return file;
}

// wide returns the elements that make the page scroll sideways. There must be none.
export const wide = (page) => page.evaluate(() => {
  const most = document.documentElement.clientWidth;
  return document.documentElement.scrollWidth <= most ? [] : [...document.querySelectorAll('body *')]
    .filter((e) => e.getBoundingClientRect().right > most + 1 && !e.closest('.scroll')).slice(0, 5).map((e) => e.outerHTML.slice(0, 120));
});

// faultsOf returns the accessibility violations that axe finds.
export const faultsOf = async (page) => {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => window.axe.run());
  return violations.flatMap((v) => v.nodes.map((n) => `${v.id}: ${n.html.slice(0, 160)} ${n.failureSummary?.split('\n').pop() ?? ''}`));
};

// text waits until the page shows a text, click clicks the button with a label, and until waits until a
// function returns a true value.
export const text = (page, needle, timeout = 15_000) => page.waitForFunction((n) => document.body.innerText.includes(n), { timeout, polling: 100 }, needle).catch(async (err) => { throw new Error(`no ${JSON.stringify(needle)} at ${page.url()} in\n${await page.evaluate(() => document.body.innerText)}`, { cause: err }); });
export const click = async (page, label, inside = 'body') => {
  for (const end = Date.now() + 10_000; ;) {
    const button = await page.waitForFunction((l, i) => [...document.querySelectorAll(`${i} button`)].find((b) => b.textContent.trim() === l && b.offsetParent), { timeout: 10_000 }, label, inside);
    try {
      return await button.asElement().click();
    } catch (err) { // the page has replaced the button before the click
      if (!/detached/.test(err.message) || Date.now() > end) throw err;
    }
  }
};
export const until = async (is, what, ms = 20_000) => {
  for (const end = Date.now() + ms; ; await new Promise((r) => setTimeout(r, 100))) {
    const v = await is();
    if (v) return v;
    assert.ok(Date.now() < end, `timed out after ${ms} ms waiting for: ${what}`);
  }
};
