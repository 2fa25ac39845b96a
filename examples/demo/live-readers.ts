/** Reads the orders by every door at once, and looks whether they tell the same: one epoch, the same values, masks where they belong. */
import type { Api, Json } from './api.ts'
import type { IcebergReader } from './live-iceberg.ts'
import { COLUMNS, MARKER, PERSONAL } from './live-source.ts'

export const PRODUCT = 'shop.orders'
const WINDOW_S = 10
/** Stores take an epoch side by side: a round in whose middle one came is read again. */
const MOST_TRIES = 20

export interface Readers {
  readonly developer: Api
  readonly viewer: Api
  readonly developerToken: string
  readonly iceberg: IcebergReader | null
}

/** Of all rows. */
export interface Totals {
  readonly count: number
  readonly amount: string
  readonly changeNo: number
}

export interface Round {
  /** That each answer names. */
  readonly epoch: number
  readonly key: number
  readonly viewer: Json | null
  readonly developer: Json | null
  readonly realtime: Json | null
  /** Orders that were changed in the seconds before. */
  readonly timeseries: { readonly count: number; readonly seconds: number }
  readonly sql: Totals
  /** A text: why there are none. */
  readonly iceberg: Totals | string
  /** What one answer says against another, or shows to a viewer who may not see it. */
  readonly contradictions: readonly string[]
}

/** Throws where something is not answered, and where the answers came to no common epoch. */
export async function readRound(readers: Readers, key: number): Promise<Round> {
  let epochs: readonly number[] = []
  for (let attempt = 0; attempt < MOST_TRIES; attempt += 1) {
    const [viewer, developer, timeseries, values, sql] = await readOnce(readers, key)
    epochs = [viewer, developer, timeseries, values].map(({ meta }) => meta.epoch as number)
    epochs = [...new Set([...epochs, sql['meta'].epochs[PRODUCT] as number])]
    const [epoch] = epochs
    if (epochs.length > 1 || epoch === undefined) continue
    const [count, amount, changeNo] = sql['rows'][0]
    const round = {
      epoch,
      key,
      viewer: viewer['data'][0] ?? null,
      developer: developer['data'][0] ?? null,
      realtime: values['rows'][0] ?? null,
      timeseries: { count: timeseries['data'].length as number, seconds: WINDOW_S },
      sql: { count: Number(count), amount: String(amount), changeNo: Number(changeNo) },
      iceberg: await icebergTotals(readers, epoch),
    }
    return { ...round, contradictions: contradictionsOf(round) }
  }
  throw new Error(`the answers named different epochs: ${epochs.join(', ')}`)
}

function readOnce({ developer, viewer }: Readers, key: number): Promise<readonly [Json, Json, Json, Json, Json]> {
  const latest = `/api/v1/products/${PRODUCT}/latest?filter=order_no:${key}`
  const from = new Date(Date.now() - WINDOW_S * 1000).toISOString()
  const sql = `SELECT count(*), sum(amount), max(change_no) FROM ${PRODUCT}`
  return Promise.all([
    viewer.get(latest),
    developer.get(latest),
    developer.get(`/api/v1/products/${PRODUCT}/timeseries?from=${from}&limit=1000`),
    valuesByKey(developer, [key]),
    developer.post('/api/v1/query', { sql }),
  ])
}

/** Of the realtime store, in the order of the keys: `rows` and `meta`; null where there is no value. */
export async function valuesByKey(reader: Api, keys: readonly number[]): Promise<Json> {
  const item = { product: PRODUCT, store: 'realtime', keys: keys.map((key) => `order:${key}`) }
  const [answer] = (await reader.post('/api/v1/read', { items: [item] }))['data']
  if (answer.error !== undefined) throw new Error(JSON.stringify(answer.error))
  return answer
}

async function icebergTotals({ iceberg, developerToken }: Readers, epoch: number): Promise<Totals | string> {
  if (iceberg === null) return 'skipped: no Python has it'
  const answer = await iceberg.ask({ epoch, token: developerToken })
  if (answer['error'] !== undefined) return answer['error']
  if (answer['gone']) return 'a newer epoch is there'
  return { count: answer['count'], amount: answer['amount'], changeNo: answer['change_no'] }
}

/** What must hold of answers of one epoch, whatever the source has done meanwhile. */
export function contradictionsOf(round: Omit<Round, 'contradictions'>): readonly string[] {
  const { viewer, developer, realtime, sql, iceberg, epoch, key } = round
  const found: string[] = []
  const open = COLUMNS.filter((name) => !PERSONAL.includes(name))
  const shown = (row: Json | null, names: readonly string[]) =>
    row === null ? 'no row' : JSON.stringify(names.map((name) => row[name]))
  if (shown(viewer, open) !== shown(developer, open)) found.push('viewer and developer are told different values')
  if (shown(realtime, COLUMNS) !== shown(developer, COLUMNS)) found.push('lookup and realtime tell different values')
  if (PERSONAL.some((name) => viewer !== null && viewer[name] === developer?.[name])) {
    found.push('the viewer is shown a personal value in clear')
  }
  const isSame = (one: Totals) => JSON.stringify(Object.values(one)) === JSON.stringify(Object.values(sql))
  if (typeof iceberg !== 'string' && !isSame(iceberg)) found.push('PyIceberg and SQL count different rows')
  return found.map((what) => `epoch ${epoch}, order ${key}: ${what}`)
}

/** The number of the newest transaction that the lookup has. */
export async function shownChange(developer: Api): Promise<number> {
  const answer = await developer.get(`/api/v1/products/${PRODUCT}/latest?filter=order_no:${MARKER}&columns=change_no`)
  return answer['data'][0].change_no
}
