/** The doors by which a product is read, and what the oracle expects behind each. */
import type { Answer, Client, Json } from '../../acceptance/client.ts'
import { type Cell, type Content, pseudonym, type Row, shownTo } from './oracle.ts'
import { MASKS, maskFor, mayRead, type Reader } from './readers.ts'
import { keyOf, templateOf, type Version } from './version.ts'

export interface Heard {
  readonly status: number
  /** Of a refusal. */
  readonly code: string | null
  readonly rows: readonly Row[] | null
  readonly version: string | null
  readonly epoch: number | null
  /** Of a refusal: the columns that it is for. */
  readonly columns?: readonly string[]
}

export interface Door {
  readonly name: string
  readonly kind: 'lookup' | 'history' | 'get' | 'timeseries' | 'realtime' | 'query'
  /** By which it is asked: of `get` and `realtime`. */
  readonly key: readonly Cell[]
  /** The version whose key that is. */
  readonly of: Version | null
  ask(client: Client): Promise<Heard>
}

const MOST = 1000

const refusalOf = (status: number, body: Json): Heard => ({
  status,
  code: body.code ?? String(body),
  rows: null,
  version: null,
  epoch: null,
  columns: body.details?.columns ?? body.columns ?? [],
})

function heardOf({ status, body }: Answer): Heard {
  if (status !== 200) return refusalOf(status, body)
  const rows = body.data.map(withoutHistory)
  return { status, code: null, rows, version: body.meta.version, epoch: body.meta.epoch }
}

/** Times of epochs, and values of before: what an epoch says besides its rows. */
function withoutHistory(row: Json): Row {
  const own = Object.entries(row).filter(
    ([name]) => !['valid_from', 'valid_to', 'is_current'].includes(name) && !name.startsWith('previous_'),
  )
  return Object.fromEntries(own) as Row
}

function queried({ status, body }: Answer): Heard {
  if (status !== 200) return refusalOf(status, body)
  const names: readonly string[] = body.columns.map(({ name }: Json) => name)
  const rows = body.rows.map((cells: readonly Cell[]) => Object.fromEntries(names.map((name, at) => [name, cells[at]])))
  return { status, code: null, rows, version: null, epoch: null }
}

/** By keys of both versions of a pair, which may have others. */
export function doorsOf(product: string, versions: readonly Version[], rows: readonly Row[][]): readonly Door[] {
  const path = `/api/v1/products/made.${product}`
  const plain = [
    { kind: 'lookup', ask: async (client: Client) => heardOf(await client.get(`${path}/latest?limit=${MOST}`)) },
    {
      kind: 'history',
      ask: async (client: Client) => {
        const answer = await client.get(`${path}/latest?limit=${MOST}&history=true`)
        const data = answer.status === 200 ? answer.body.data.filter((row: Json) => row.is_current) : null
        return heardOf(data === null ? answer : { ...answer, body: { ...answer.body, data } })
      },
    },
    {
      kind: 'timeseries',
      ask: async (client: Client) => heardOf(await client.get(`${path}/timeseries?limit=${MOST}`)),
    },
    {
      kind: 'query',
      ask: async (client: Client) =>
        queried(await client.post('/api/v1/query', { sql: `SELECT * FROM made."${product}"`, limit: MOST })),
    },
  ] as const
  const byKey = versions.flatMap((version, at): readonly Door[] => {
    const [row] = rows[at] as Row[]
    const key = keyOf(version)
    if (row === undefined) return []
    const values = key.map(({ name }) => row[name] as Cell)
    const filters = key.map(({ name }, index) => `filter=${name}:${encodeURIComponent(String(values[index]))}`)
    const get: Door = {
      name: `get ${at}`,
      kind: 'get',
      key: values,
      of: version,
      ask: async (client) => heardOf(await client.get(`${path}/latest?limit=${MOST}&${filters.join('&')}`)),
    }
    if (version.realtime === null) return [get]
    const text = key.reduce(
      (made, { name }, index) => made.replace(`{${name}}`, String(values[index])),
      templateOf(version, version.realtime.prefix),
    )
    const realtime: Door = {
      name: `realtime ${at}`,
      kind: 'realtime',
      key: values,
      of: version,
      ask: async (client) => heardOf(await client.get(`${path}/realtime?key=${encodeURIComponent(text)}`)),
    }
    return [get, realtime]
  })
  return [...plain.map((door): Door => ({ ...door, name: door.kind, key: [], of: null })), ...byKey]
}

/** As that version left it. */
export async function pastOf(client: Client, product: string, number: string): Promise<Heard> {
  const wanted = { sql: `SELECT * FROM made."${product}"`, limit: MOST, as_of: `v${number}` }
  return queried(await client.post('/api/v1/query', wanted))
}

/** What is expected: rows, or the code of a refusal. Null: the oracle says nothing of it. */
export function expectedAt(
  door: Door,
  reader: Reader,
  content: Content,
): { rows: readonly Row[] } | { code: string } | null {
  const { version } = content
  if (!mayRead(reader, version.classification)) {
    return { code: door.kind === 'query' ? 'table_not_found' : 'product_forbidden' }
  }
  if (door.of !== null && door.of !== version) return null
  const shown = shownTo(reader, content) as readonly Row[]
  const hiddenKey = keyOf(version).filter((column) => maskFor(reader, column) !== null)
  const isLost = hiddenKey.some((column) => maskFor(reader, column) !== 'hash')
  const ofKey = content.rows.flatMap((row, at) =>
    keyOf(version).every(({ name }, index) => row[name] === door.key[index]) ? [shown[at] as Row] : [],
  )
  switch (door.kind) {
    case 'query':
      return { rows: shown }
    case 'lookup':
    case 'get':
      if (version.lookup === null) return { code: 'endpoint_not_declared' }
      if (isLost && version.lookup.mode !== 'current') return { code: 'column_masked' }
      if (door.kind === 'lookup') return { rows: shown }
      return hiddenKey.length > 0 || !isIndexed(version) ? null : { rows: ofKey }
    case 'history':
      if (version.lookup === null) return { code: 'endpoint_not_declared' }
      if (version.lookup.mode !== 'type_2')
        return isLost && version.lookup.mode !== 'current' ? null : { code: 'history_not_kept' }
      if (isLost) return { code: 'column_masked' }
      return isTracked(version, reader) ? { rows: shown } : { code: 'history_not_kept' }
    case 'timeseries':
      return version.timeseries === null ? { code: 'endpoint_not_declared' } : { rows: shown }
    case 'realtime': {
      if (version.realtime === null) return { code: 'endpoint_not_declared' }
      if (hiddenKey.length > 0) return { code: 'column_masked' }
      const { include } = version.realtime
      const kept = ofKey.map((row) =>
        include === null ? row : Object.fromEntries(Object.entries(row).filter(([name]) => include.includes(name))),
      )
      return kept.length === 0 ? { code: 'key_not_found' } : { rows: kept }
    }
  }
}

/** A history is of columns that the reader has. */
const isTracked = (version: Version, reader: Reader): boolean =>
  version.columns.some((column) => version.lookup?.tracked.includes(column.name) && maskFor(reader, column) !== 'omit')

const isIndexed = (version: Version): boolean =>
  keyOf(version).every(({ name }) => version.lookup?.index.includes(name) ?? false)

/** Pseudonyms of one tenant, by class and value, as they were first met. */
export class Pseudonyms {
  readonly #known = new Map<string, string>()
  readonly #values = new Map<string, string>()

  /** As the oracle names it, where its value is known; null: one that was never met. */
  nameOf(text: string): string | null {
    return this.#values.get(text) ?? null
  }

  /** Throws where a value has another pseudonym than before. */
  learn(name: string, text: string): void {
    const known = this.#known.get(name) ?? text
    if (known !== text) throw new Error(`${name} is ${text}, and was ${known}`)
    this.#known.set(name, text)
    this.#values.set(text, name)
  }
}

const HASHED = Object.entries(MASKS).flatMap(([name, mask]) => (mask === 'hash' ? [name] : []))

/**
 * The same text for the same rows, in any order. Pseudonyms are named by what they are of, which is learned by pairing rows by
 * a column in clear of which each has its own.
 */
export function textOf(rows: readonly Row[], pseudonyms: Pseudonyms): string {
  const named = rows.map((row) =>
    JSON.stringify(
      Object.entries(row)
        .toSorted(([one], [other]) => (one < other ? -1 : 1))
        .map(([name, value]) => [name, isPseudonym(value) ? (pseudonyms.nameOf(String(value)) ?? '#?') : value]),
    ),
  )
  return named.toSorted().join('\n')
}

const isPseudonym = (value: Cell): boolean => typeof value === 'string' && /^[0-9a-f]{32}$/.test(value)

export function learn(rows: readonly Row[], expected: readonly Row[], pseudonyms: Pseudonyms): void {
  const by = ['id', 'code'].find((name) =>
    expected.every((row) => row[name] != null && !String(row[name]).startsWith('#')),
  )
  if (by === undefined) return
  const own = new Map(expected.map((row) => [row[by], row]))
  for (const row of rows)
    for (const [name, value] of Object.entries(own.get(row[by] as Cell) ?? {}))
      if (HASHED.some((one) => String(value).startsWith(`#${one}#`)) && isPseudonym(row[name] ?? null))
        pseudonyms.learn(String(value), String(row[name]))
}

export { pseudonym }
