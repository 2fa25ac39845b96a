/** A walk along a graph that nobody has as a whole: level by level, within bounds. */

export interface WalkBounds {
  /** Steps from the start. */
  readonly depth: number
  /** Nodes that may be found besides the start. */
  readonly most: number
}

export interface Walked {
  /** How many steps each is away, by the shortest way; the start itself is not there. */
  readonly found: ReadonlyMap<string, number>
  /** There is more than the bounds let in. */
  readonly isCut: boolean
}

/** @param next what is one step away from any of these */
export async function walk(
  start: string,
  next: (level: readonly string[]) => Promise<readonly string[]>,
  { depth, most }: WalkBounds,
): Promise<Walked> {
  const found = new Map<string, number>()
  let level: readonly string[] = [start]
  for (let step = 1; level.length > 0; step += 1) {
    const beyond = [...new Set(await next(level))].filter((node) => node !== start && !found.has(node))
    if (beyond.length > 0 && step > depth) return { found, isCut: true }
    level = beyond.slice(0, most - found.size)
    for (const node of level) found.set(node, step)
    if (level.length < beyond.length) return { found, isCut: true }
  }
  return { found, isCut: false }
}
