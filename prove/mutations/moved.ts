/** The same mutation in an older or newer text: by what the line says, since its number and file may be others. */
import type { Mutation } from './mutation.ts'

/** Null where no line, or none that can be told from others, says the same. */
export function movedTo(mutation: Mutation, line: string, texts: ReadonlyMap<string, string>): Mutation | null {
  const here = found(mutation, line, mutation.file, texts.get(mutation.file) ?? '')
  if (here.length > 0) return nearest(mutation, here)
  const ending = mutation.file.slice(mutation.file.lastIndexOf('.'))
  const elsewhere = [...texts]
    .filter(([file]) => file.endsWith(ending))
    .flatMap(([file, text]) => found(mutation, line, file, text))
  return elsewhere.length === 1 ? (elsewhere[0] ?? null) : null
}

/** Lines that differ by their indent are the same: code moves into a function, and out of it. */
function found(mutation: Mutation, line: string, file: string, text: string): readonly Mutation[] {
  const wanted = line.trim()
  const indent = line.length - line.trimStart().length
  return text.split('\n').flatMap((candidate, index) => {
    if (candidate.trim() !== wanted) return []
    const deeper = candidate.length - candidate.trimStart().length - indent
    return [{ ...mutation, file, line: index + 1, column: mutation.column + deeper }]
  })
}

function nearest({ line }: Mutation, candidates: readonly Mutation[]): Mutation | null {
  const byDistance = candidates.toSorted((left, right) => Math.abs(left.line - line) - Math.abs(right.line - line))
  return byDistance[0] ?? null
}
