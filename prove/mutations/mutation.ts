/** One token of a source changed, so that a test which holds what the source does has something to notice. */

export const KINDS = ['typescript', 'javascript', 'sql', 'yaml', 'python'] as const

/** Of what it changes, not of the file: SQL stands in strings of TypeScript and in blocks of YAML. */
export type Kind = (typeof KINDS)[number]

export interface Mutation {
  /** From the root, with `/`. */
  readonly file: string
  /** From 1. */
  readonly line: number
  /** From 1, in UTF-16 units. */
  readonly column: number
  /** What stands there; empty where something is put in. */
  readonly from: string
  readonly to: string
  readonly kind: Kind
}

/** A change by where it begins in a text, before it is known which file the text is of. */
export interface Edit {
  readonly at: number
  readonly from: string
  readonly to: string
  readonly kind: Kind
}

export function mutationOf(file: string, text: string, { at, from, to, kind }: Edit): Mutation {
  const before = text.slice(0, at)
  const lineStart = before.lastIndexOf('\n') + 1
  return { file, line: before.split('\n').length, column: at - lineStart + 1, from, to, kind }
}

export function offsetOf(text: string, { line, column }: Pick<Mutation, 'line' | 'column'>): number {
  let start = 0
  for (let passed = 1; passed < line; passed++) start = text.indexOf('\n', start) + 1
  return start + column - 1
}

/** Throws where the text is not the one that the mutation was made from. */
export function applied(text: string, mutation: Mutation): string {
  const at = offsetOf(text, mutation)
  if (!text.startsWith(mutation.from, at)) throw new Error(`${told(mutation)}: something else stands there`)
  return text.slice(0, at) + mutation.to + text.slice(at + mutation.from.length)
}

export function told({ file, line, column, from, to }: Mutation): string {
  return `${file}:${line}:${column} ${JSON.stringify(from)} → ${JSON.stringify(to)}`
}
