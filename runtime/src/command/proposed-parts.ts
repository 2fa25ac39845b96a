/** What a product with such columns should be checked for and served by. */
import { canStandInKey, isLogicalType, type LogicalType, typeName } from '@sluice/sdk'
import { isTimeType } from '../manifest/manifest-set.ts'
import type { DraftColumn } from './product-draft.ts'

/** A store that a server has: what it serves, and types that it refuses. */
export interface StoreOnOffer {
  readonly type: string
  readonly refuses: ReadonlySet<string>
}

type Fields = Readonly<Record<string, unknown>>

const LONGEST_TEMPLATE = 500

export const keyOf = (columns: readonly DraftColumn[]): readonly string[] =>
  columns.filter(({ role }) => role === 'identity').map(({ name }) => name)

/** What finds the mistakes that a key is for. */
export function proposedChecks(columns: readonly DraftColumn[]): Fields {
  const key = keyOf(columns)
  if (key.length === 0) return { checks: [] }
  return {
    checks: [
      { name: 'key_is_there', not_null: key },
      { name: 'key_is_unique', unique: key },
    ],
  }
}

/** @param name of the product: what keys of realtime begin with */
export function proposedEndpoints(
  name: string,
  columns: readonly DraftColumn[],
  stores: readonly StoreOnOffer[],
): { readonly endpoints: readonly Fields[]; readonly notes: readonly string[] } {
  const key = keyOf(columns)
  const time = columns.find(({ role }) => role === 'time')
  const notes: string[] = []
  const isOffered = (type: string): boolean => {
    const store = stores.find((one) => one.type === type)
    if (store === undefined) return false
    const refused = columns.find((column) => store.refuses.has(typeName(column.type as LogicalType)))
    if (refused !== undefined) notes.push(`${type} cannot hold ${refused.name}, which is of type ${refused.type}.`)
    return refused === undefined
  }
  const endpoints: Fields[] = []
  if (key.length === 0) notes.push('lookup and realtime need a key: columns with the role identity in output.yaml.')
  else if (isOffered('lookup')) endpoints.push({ type: 'lookup' })
  if (time !== undefined && time.nullable !== false) {
    notes.push(`timeseries would leave out rows without ${time.name}, which may be empty.`)
  } else if (time !== undefined && isOffered('timeseries')) {
    endpoints.push({ type: 'timeseries', config: { time_column: time.name } })
  }
  if (isOffered('analytics')) endpoints.push({ type: 'analytics' })
  const template = `${name}:${key.map((column) => `{${column}}`).join(':')}`
  const isKey = key.every((one) => canStandInKey(columns.find((column) => column.name === one)?.type as LogicalType))
  if (key.length > 0 && isKey && template.length <= LONGEST_TEMPLATE && isOffered('realtime')) {
    endpoints.push({ type: 'realtime', config: { key_template: template } })
  }
  return { endpoints, notes }
}

/** Types that no row is told from another by. */
const NO_KEY_TYPES: ReadonlySet<string> = new Set(['float', 'double', 'json'])

/** Why a column of that type is no part of a key; null where it can be. */
export const noKeyType = (type: string): string | null =>
  isLogicalType(type) && !NO_KEY_TYPES.has(typeName(type)) ? null : `values of type ${type} do not tell rows apart`

const NUMBERS: ReadonlySet<string> = new Set(['integer', 'long', 'float', 'double', 'decimal'])

/** Numbers that are names of something: nobody adds them up. */
const NAMES_SOMETHING =
  /(^|[_\W]|[a-z](?=[A-Z]))(id|ids|at|on|no|nr|num|number|code|key|year|month|day|week|zip|plz|version|ref|fk|sk)$/i

/** Of what is grouped by. */
const GROUPS =
  /(^|[_\W])(status|state|type|kind|category|country|region|city|currency|channel|segment|level|language|locale|tier|brand|gender|flag|class|group)$/i

/** The role of a column that is neither of the key nor the time. */
export function proposedRole(name: string, type: LogicalType): 'measure' | 'dimension' | 'attribute' {
  const kind = typeName(type)
  if (NUMBERS.has(kind)) return NAMES_SOMETHING.test(name) ? 'dimension' : 'measure'
  if (kind === 'boolean' || (kind === 'string' && GROUPS.test(name))) return 'dimension'
  return 'attribute'
}

/** In this order: what an event's own time is called, and last when somebody touched the row. */
const TIMES = [
  /(^|_)(occurred|happened|event|measured|observed|recorded|sampled|read|reading)/i,
  /^(time|timestamp|ts|date|datetime|zeit|datum)$/i,
  /(^|_)(ordered|placed|booked|created|inserted|issued|started|sent|received|registered|signed|opened|erstellt|angelegt)/i,
  /./,
]

/** The column of time, of those that everybody may see: one that is never empty before others, then by its name. */
export function proposedTime(columns: readonly DraftColumn[]): string | null {
  const times = columns.filter(
    ({ type, classification, role }) =>
      isTimeType(type as LogicalType) && classification === undefined && role !== 'identity',
  )
  const filled = times.filter(({ nullable }) => nullable === false)
  const among = filled.length > 0 ? filled : times
  for (const pattern of TIMES) {
    const found = among.find(({ name }) => pattern.test(name))
    if (found !== undefined) return found.name
  }
  return null
}
