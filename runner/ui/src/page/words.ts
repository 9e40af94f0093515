// Shell commands as lists of words.

/** Quotes a word for the shell. */
export const quote = (word: string) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`);

const word = /(?:[^\s'"\\]|\\[^]|'[^']*'|"(?:[^"\\]|\\[^])*")+/g;

/** Whether a command cannot be split into words, because it has an unclosed quote or ends in a backslash. */
export const unfinished = (text: string) => text.replace(word, '').trim() !== '';

/** Splits a command into words. Quotes and backslashes work as in a shell. */
export function split(text: string): string[] {
  const words: string[] = [];
  for (const m of text.match(word) ?? []) {
    words.push(m.replace(/'([^']*)'|"((?:[^"\\]|\\[^])*)"|\\([^])/g, (_, single, double, one) => single ?? one ?? double.replace(/\\(["\\$`])/g, '$1')));
  }
  return words;
}
