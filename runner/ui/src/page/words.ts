// A command as its words.

/** Splits a command into words, with quotes and backslashes as a shell has them. */
export function split(text: string): string[] {
  const words: string[] = [];
  const word = /(?:[^\s'"\\]|\\[^]|'[^']*'|"(?:[^"\\]|\\[^])*")+/g;
  for (const m of text.match(word) ?? []) {
    words.push(m.replace(/'([^']*)'|"((?:[^"\\]|\\[^])*)"|\\([^])/g, (_, single, double, one) => single ?? one ?? double.replace(/\\(["\\$`])/g, '$1')));
  }
  return words;
}
