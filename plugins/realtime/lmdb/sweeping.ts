/** Takes away what counts no more: replaced values, writes that came to nothing, expired and dropped datasets. */
import type { Host } from '@sluice/sdk'
import type { Database } from 'lmdb'
import type { Environment } from './environment.ts'
import { endOf } from './keys.ts'
import { factsOf } from './markers.ts'
import { OWN_WORK, type Turn, type Turns } from './turns.ts'
import { compacted, type Visibility } from './versions.ts'

export const SWEEP_EVERY_MS = 60_000

/** Entries between two breaths. */
const CHUNK_ENTRIES = 500

/** One round over all datasets. Gives way to writers: a dataset that is being written is left for the next round. */
export async function sweep(environment: Environment, host: Host, turns: Turns): Promise<void> {
  for (const [prefix, marker] of environment.markers.all()) {
    const hasExpired = !marker.isExpired && (factsOf(marker).endsAtMs ?? Number.POSITIVE_INFINITY) <= host.clock.nowMs()
    if (!(marker.hasGarbage || marker.isDropped || hasExpired) || !turns.isFree(prefix)) continue
    await turns.take(prefix, OWN_WORK, async (turn) => {
      if (marker.isDropped) return finishDrop(environment, prefix, turn)
      if (hasExpired) await expire(environment, prefix)
      await sweepDataset(environment, prefix, turn)
    })
  }
}

/** From here on no value counts, and the next write must bring all of them. */
async function expire(environment: Environment, prefix: string): Promise<void> {
  await environment.markers.update(prefix, (marker) => ({ ...marker, floor: marker.nextWrite, isExpired: true }))
}

/** Call it in the dataset's turn, while nothing is pending that may still be committed. */
export async function sweepDataset(environment: Environment, prefix: string, turn: Turn): Promise<void> {
  const marker = environment.markers.get(prefix)
  if (!marker) return
  const check = checkOf(environment, turn)
  await compactRange(environment.entries, prefix, check, marker)
  await compactRange(environment.places, [prefix], check, marker)
  await environment.markers.update(prefix, (swept) => ({ ...swept, aborted: [], pending: null, hasGarbage: false }))
}

/** Removes the values, then the marker; where it was interrupted the next call or sweep goes on. */
export async function finishDrop(environment: Environment, prefix: string, turn: Turn): Promise<void> {
  const check = checkOf(environment, turn)
  await compactRange(environment.entries, prefix, check, NOTHING)
  await compactRange(environment.places, [prefix], check, NOTHING)
  await environment.markers.remove(prefix)
}

function checkOf(environment: Environment, turn: Turn): () => void {
  return () => {
    environment.check()
    turn.check()
  }
}

const NOTHING: Visibility = { committed: -1, floor: 0, aborted: [] }

async function compactRange<K extends string | string[]>(
  database: Database<Buffer, K>,
  start: string | string[],
  check: () => void,
  visibility: Visibility,
): Promise<void> {
  const end = Array.isArray(start) ? [endOf(start[0] ?? '')] : endOf(start)
  let from: string | string[] | undefined = start
  while (from !== undefined) {
    const page: { readonly key: K; readonly value: Buffer }[] = [
      ...database.getRange({ start: from, end, limit: CHUNK_ENTRIES + 1, snapshot: false }),
    ]
    from = page[CHUNK_ENTRIES]?.key
    const changes = page.slice(0, CHUNK_ENTRIES).map(({ key, value }) => {
      const kept = compacted(value, visibility)
      if (kept === null) return database.remove(key)
      return kept.length === value.length ? Promise.resolve(true) : database.put(key, kept)
    })
    await Promise.all(changes)
    check()
  }
}
