/** What an answer must be: of one version of its own tenant's rows, or a refusal that says which server is missing. */
import type { Json } from '../../acceptance/client.ts'
import { CITIES, DOMAIN, type Person, PRODUCT, ROWS } from './world.ts'

export const KINDS = ['lookup', 'timeseries', 'realtime', 'query'] as const
export type Kind = (typeof KINDS)[number]

export interface Question {
  readonly kind: Kind
  readonly path: string
  readonly sql?: string
  /** Numbers of the rows that it is about. */
  readonly ids: readonly number[]
}

const all = Array.from({ length: ROWS }, (_, index) => index + 1)
const COLUMNS = ['id', 'tenant', 'email', 'city', 'version', 'amount'] as const

export function questionAt(turn: number): Question {
  const path = `/api/v1/products/${PRODUCT}`
  const id = 1 + ((turn * 7) % ROWS)
  const city = turn % CITIES
  switch (turn % 4) {
    case 0:
      return {
        kind: 'lookup',
        path: `${path}/latest?filter=city:city%20${city}`,
        ids: all.filter((n) => n % CITIES === city),
      }
    case 1:
      return { kind: 'realtime', path: `${path}/realtime?key=person:${id}`, ids: [id] }
    case 2:
      return { kind: 'timeseries', path: `${path}/timeseries?from=2024-01-01&limit=1000`, ids: all }
    default:
      return {
        kind: 'query',
        path: '/api/v1/query',
        sql: `select ${COLUMNS.join(', ')} from ${DOMAIN}.${PRODUCT} order by id`,
        ids: all,
      }
  }
}

export interface Shown {
  readonly id: number
  readonly tenant: string
  readonly email: string
  readonly city: string
  readonly version: number
  readonly amount: number
}

export function shownRows(kind: Kind, body: Json): readonly Shown[] {
  if (kind !== 'query') return body.data
  return body.rows.map((row: Json) => Object.fromEntries(COLUMNS.map((name, at) => [name, row[at]])))
}

/** Which epoch, or snapshot, the answer says it is of. */
export function stateOf(kind: Kind, body: Json): string {
  return kind === 'query' ? `snapshot ${body.meta.snapshots[`${DOMAIN}.${PRODUCT}`]}` : `epoch ${body.meta.epoch}`
}

/** Everything that is wrong with rows that were given to the person; none where they are right. */
export function faultsOf(person: Person, { ids }: Question, rows: readonly Shown[]): readonly string[] {
  const faults: string[] = []
  const got = rows.map(({ id }) => id).sort((left, right) => left - right)
  if (got.join() !== ids.join()) faults.push(`rows ${got.join()} in place of ${ids.join()}`)
  if (new Set(rows.map(({ version }) => version)).size > 1) faults.push('rows of several versions')
  for (const { id, tenant, email, city, version, amount } of rows) {
    if (tenant !== person.tenant) faults.push(`a row of ${tenant}`)
    if (city !== `city ${id % CITIES}` || amount !== version * 1000 + id) faults.push(`row ${id} is wrong`)
    const clear = `${person.tenant}-${id}@example.com`
    if (person.seesClear ? email !== clear : String(email).includes('@')) faults.push(`e-mail of ${id}: ${email}`)
  }
  return [...new Set(faults)]
}
