/** Mutations drawn from many sources: the same for the same seed, and none twice. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Random } from '../../conformance-tests/random.ts'
import { KINDS, type Kind, type Mutation } from './mutation.ts'
import { isMutable, mutationsOf } from './sources.ts'

/** How often each kind is drawn, where there is any of it. */
export type Shares = Readonly<Partial<Record<Kind, number>>>

export const AS_WRITTEN: Shares = { typescript: 12, sql: 4, yaml: 2, python: 1, javascript: 1 }

/** A kind first, so that the many lines of one do not hide another; then any place of it alike. */
export function drawMutations(
  { root, files }: { readonly root: string; readonly files: readonly string[] },
  count: number,
  random: Random,
  shares: Shares = AS_WRITTEN,
): readonly Mutation[] {
  const all = files.filter(isMutable).flatMap((file) => mutationsOf(file, readFileSync(join(root, file), 'utf8')))
  const waiting = new Map(KINDS.map((kind) => [kind, random.shuffled(all.filter((one) => one.kind === kind))]))
  const drawn: Mutation[] = []
  while (drawn.length < count) {
    const lots = KINDS.flatMap((kind) =>
      waiting.get(kind)?.length ? Array(shares[kind] ?? 0).fill(kind) : [],
    ) as Kind[]
    if (lots.length === 0) break
    const next = waiting.get(random.pick(lots))?.pop()
    if (next) drawn.push(next)
  }
  return drawn
}
