// A command as its words.

/** A word as a shell has to be given it. */
export const quote = (word: string) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`);

/** Splits a command into words, with quotes and backslashes as a shell has them. */
export function split(text: string): string[] {
  const words: string[] = [];
  const word = /(?:[^\s'"\\]|\\[^]|'[^']*'|"(?:[^"\\]|\\[^])*")+/g;
  for (const m of text.match(word) ?? []) {
    words.push(m.replace(/'([^']*)'|"((?:[^"\\]|\\[^])*)"|\\([^])/g, (_, single, double, one) => single ?? one ?? double.replace(/\\(["\\$`])/g, '$1')));
  }
  return words;
}
