import { createHash } from 'node:crypto'
import { type Digest, notMaterialized, SluiceError } from '@sluice/sdk'
import { cellTexts } from '../keyed-values/cells.ts'
import { type Connections, keysBeginningWith } from './connections.ts'
import type { Marker, Markers } from './markers.ts'
import { visibleRows } from './records.ts'

const CHUNK_KEYS = 500

/** Keys and values in the order of the keys. Throws TRANSIENT `epoch_moved` where a write commits meanwhile. */
export async function digest(
  connections: Connections,
  markers: Markers,
  prefix: string,
  signal: AbortSignal,
): Promise<Digest> {
  const marker = await markers.get(prefix)
  if (marker === undefined) throw notMaterialized()
  const keys = await sortedKeys(connections, prefix, signal)
  const hash = createHash('sha256')
  let rowCount = 0
  for (let start = 0; start < keys.length; start += CHUNK_KEYS) {
    stopIfEnded(signal)
    for (const line of await linesOf(connections, prefix, marker, keys.slice(start, start + CHUNK_KEYS))) {
      hash.update(line)
      rowCount += 1
    }
  }
  if ((await markers.get(prefix))?.committed !== marker.committed) throw epochMoved()
  return { rowCount, sha256: hash.digest('hex') }
}

/** The server gives keys in no order, and one may come twice. */
async function sortedKeys(connections: Connections, prefix: string, signal: AbortSignal): Promise<readonly string[]> {
  const keys = new Set<string>()
  for await (const page of keysBeginningWith(connections, prefix)) {
    stopIfEnded(signal)
    for (const key of page) keys.add(key)
  }
  return [...keys].sort()
}

async function linesOf(
  { writes, isCluster }: Connections,
  prefix: string,
  marker: Marker,
  keys: readonly string[],
): Promise<readonly string[]> {
  const records = isCluster
    ? await Promise.all(keys.map((key) => writes.getBuffer(key)))
    : await writes.mgetBuffer([...keys])
  return keys.flatMap((key, index) => {
    const rows = visibleRows(records[index] ?? Buffer.alloc(0), marker)
    const sorted = rows.toSorted((left, right) => Buffer.compare(left.identity, right.identity))
    return sorted.map(({ identity, layout, value }) => {
      const names = (marker.layouts[layout] ?? []).map((column) => column.name)
      const content = contentOf(value ?? '', names)
      return `${JSON.stringify([key.slice(prefix.length), identity.toString('utf8'), content])}\n`
    })
  })
}

/** Without nulls, so that a value from before a column was added equals the same one from after. */
function contentOf(json: string, names: readonly string[]): readonly (readonly [string, string])[] {
  const texts = cellTexts(json)
  return names.flatMap((name, index) => (texts[index] === 'null' ? [] : [[name, texts[index] ?? ''] as const]))
}

function stopIfEnded(signal: AbortSignal): void {
  if (signal.aborted) throw new SluiceError('TRANSIENT', 'the digest was ended by its caller', { code: 'aborted' })
}

function epochMoved(): SluiceError {
  return new SluiceError('TRANSIENT', 'another epoch was committed while the content was read', {
    code: 'epoch_moved',
    remedy: 'Ask again.',
  })
}
