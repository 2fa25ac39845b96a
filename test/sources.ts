/** The project's TypeScript files and what each imports: what the tests of the whole repository look at. */
import { globSync, readFileSync } from 'node:fs'
import { join, sep } from 'node:path'

export const ROOT = join(import.meta.dirname, '..')

export interface SourceFile {
  /** From the root, with `/`. */
  readonly path: string
  readonly text: string
}

export function sourceFiles(patterns: readonly string[]): readonly SourceFile[] {
  const found = globSync(patterns, { cwd: ROOT, exclude: ['**/node_modules/**', '**/dist/**'] })
  return found.sort().map((path) => ({
    path: path.split(sep).join('/'),
    text: readFileSync(join(ROOT, path), 'utf8'),
  }))
}

/** Static, re-exporting and dynamic imports, `typeof import()` and `require` with a literal, in the order of the text. */
export function importsOf(text: string): readonly string[] {
  const withoutComments = text.replace(/\/\*[\s\S]*?\*\//g, '').replace(/^\s*\/\/.*$/gm, '')
  const forms =
    /(?:\bfrom\s+|\bimport\s+|\bimport\s*\(\s*|\brequire\s*\(\s*|\brequire\.resolve\s*\(\s*)(['"`])([^'"`\n]+)\1/g
  return [...withoutComments.matchAll(forms)].map((match) => match[2] as string)
}
