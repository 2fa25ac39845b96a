import { createHash } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { type Digest, SluiceError } from '@sluice/sdk'
import { cellTexts } from '../keyed-values/cells.ts'
import type { Environment } from './environment.ts'
import { type EntryKey, endOf } from './keys.ts'
import { visibleVersion } from './versions.ts'
import { markerOf } from './writing.ts'

const CHUNK_ENTRIES = 1000

/** Keys and values in the order of the keys. Throws TRANSIENT `epoch_moved` where a write commits meanwhile. */
export async function digest(environment: Environment, prefix: string, signal: AbortSignal): Promise<Digest> {
  const marker = markerOf(environment, prefix)
  const hash = createHash('sha256')
  let rowCount = 0
  let from: EntryKey | undefined = prefix
  while (from !== undefined) {
    environment.check()
    if (signal.aborted) throw new SluiceError('TRANSIENT', 'the digest was ended by its caller', { code: 'aborted' })
    if (environment.markers.get(prefix)?.committed !== marker.committed) throw epochMoved()
    const page: { readonly key: EntryKey; readonly value: Buffer }[] = [
      ...environment.entries.getRange({ start: from, end: endOf(prefix), limit: CHUNK_ENTRIES + 1 }),
    ]
    for (const { key, value } of page.slice(0, CHUNK_ENTRIES)) {
      const version = visibleVersion(value, marker)
      if (version === undefined || version.value === null) continue
      const names = (marker.layouts[version.layout] ?? []).map((column) => column.name)
      hash.update(`${JSON.stringify([String(key).slice(prefix.length), content(version.value, names)])}\n`)
      rowCount += 1
    }
    from = page[CHUNK_ENTRIES]?.key
    await nextTurn()
  }
  return { rowCount, sha256: hash.digest('hex') }
}

/** Without nulls, so that a value from before a column was added equals the same one from after. */
function content(json: string, names: readonly string[]): readonly (readonly [string, string])[] {
  const texts = cellTexts(json)
  return names.flatMap((name, index) => (texts[index] === 'null' ? [] : [[name, texts[index] ?? ''] as const]))
}

function epochMoved(): SluiceError {
  return new SluiceError('TRANSIENT', 'another epoch was committed while the content was read', {
    code: 'epoch_moved',
    remedy: 'Ask again.',
  })
}
