/** What a plan says, held against the oracle, which is held against what is read. */
import type { Json } from '../../acceptance/client.ts'
import { type Content, keyText, type Outcome, shownAs } from './oracle.ts'
import { READERS, type Reader, TEAM } from './readers.ts'
import { keyOf, type Version } from './version.ts'

export interface Planned {
  readonly from: Content
  readonly next: Version
  readonly outcome: Outcome
  readonly isBreaking: boolean
}

export function judgePlan(plan: Json, planned: Planned): readonly string[] {
  return [
    ...verdictIn(plan, planned),
    ...rowsIn(plan, planned),
    ...accessIn(plan, planned),
    ...placesIn(plan, planned),
    ...lakeIn(plan, planned),
  ]
}

function verdictIn({ verdict }: Json, { isBreaking }: Planned): readonly string[] {
  return (verdict === 'breaking') === isBreaking
    ? []
    : [`plan: the verdict is ${verdict}, and the oracle says ${isBreaking ? 'breaking' : 'not breaking'}`]
}

const same = (what: string, told: unknown, wanted: unknown): readonly string[] =>
  JSON.stringify(told) === JSON.stringify(wanted)
    ? []
    : [`plan: ${what} is ${JSON.stringify(told)}, and the oracle says ${JSON.stringify(wanted)}`]

function rowsIn(
  { rows, estimated_rows, estimated_from, cost }: Json,
  { from, next, outcome }: Planned,
): readonly string[] {
  if (outcome.isTwice && /occur more than once/.test(rows.not_counted)) return []
  if (rows.not_counted !== null)
    return KNOWN_REASONS.some((reason) => reason.test(rows.not_counted))
      ? []
      : [`plan: not counted because ${rows.not_counted}`]
  const [old, made] = [from.rows, outcome.made].map((all) => all.map((row) => keyText(next, row))) as [
    string[],
    string[],
  ]
  const coming = new Set(made.filter((key) => !old.includes(key))).size
  const leaving = old.filter((key) => !made.includes(key)).length
  const after = next.keepsMissing ? old.length + coming : made.length
  const wanted = { before: old.length, after, leaving: next.keepsMissing ? 0 : leaving, coming, not_counted: null }
  const lake = cost.find(({ place, variant }: Json) => place === 'lake' && variant === 'clear')
  return [
    ...same('rows', rows, wanted),
    ...(estimated_from === 'count' ? same('estimated_rows', estimated_rows, after) : []),
    ...same('the rows of the lake', lake?.rows, after),
  ]
}

const KNOWN_REASONS = [
  /^it makes its rows as the version in service does$/,
  /^rows of today have another key$/,
  /has not been ingested yet$/,
  /lacks? values/,
  /was read when no product used/,
  /^the transform gives no value for .* which output.yaml requires$/,
]

/** The groups that stand for the readers. */
const GROUPS: readonly (readonly [type: string, name: string, reader: string])[] = [
  ['team', 'svc-viewers', 'vito'],
  ['team', 'svc-developers', 'dora'],
  ['team', TEAM, 'sue'],
  ['user', 'clara', 'clara'],
  ['user', 'pam', 'pam'],
]

function accessIn({ access }: Json, { from, next }: Planned): readonly string[] {
  return GROUPS.flatMap(([type, name, who]) => {
    const reader = READERS.find((one) => one.name === who) as Reader
    const group = access.groups.find((one: Json) => one.type === type && one.name === name)
    if (group === undefined) return [`plan: access says nothing of ${name}`]
    const names = [...new Set([...from.version.columns, ...next.columns].map((column) => column.name))]
    const wanted = names.map(
      (column) => `${column} ${shownAs(reader, from.version, column)} ${shownAs(reader, next, column)}`,
    )
    const told = group.columns.map((one: Json) => `${one.name} ${one.before} ${one.after}`)
    return same(`what ${name} is shown`, told.toSorted(), wanted.toSorted())
  })
}

/** Stores are those of the version, and a copy is built anew for a reason alone. */
function placesIn({ stores }: Json, { from, next }: Planned): readonly string[] {
  const wanted = (['lookup', 'timeseries', 'realtime'] as const).filter((one) => next[one] !== null)
  const told = [...new Set<string>(stores.map(({ endpoint }: Json) => endpoint))].filter((one) => one !== 'analytics')
  const rebuilt = stores.filter(({ steps }: Json) => steps.some(({ action }: Json) => action === 'replace'))
  const shape = (version: Version) =>
    JSON.stringify(
      version.columns.map(({ name, type, nullable, isKey, classification }) => [
        name,
        type,
        nullable,
        isKey,
        classification,
      ]),
    )
  const isSame =
    shape(from.version) === shape(next) &&
    JSON.stringify([from.version.lookup, from.version.timeseries, from.version.realtime]) ===
      JSON.stringify([next.lookup, next.timeseries, next.realtime])
  return [
    ...same('stores', told.toSorted(), [...wanted].toSorted()),
    ...(isSame && rebuilt.length > 0
      ? [
          `plan: ${rebuilt[0].endpoint} is built anew though nothing of its shape changes: ${JSON.stringify(rebuilt[0])}`,
        ]
      : []),
  ]
}

function lakeIn({ lake }: Json, { from, next }: Planned): readonly string[] {
  const [old, now] = [from.version, next].map(
    ({ columns }) => new Map(columns.map(({ name, type }) => [name, type])),
  ) as [Map<string, string>, Map<string, string>]
  const wanted = [
    ...[...now].filter(([name]) => !old.has(name)).map(([name, type]) => `add column ${name} ${type}`),
    ...[...old.keys()].filter((name) => !now.has(name)).map((name) => `drop column ${name}`),
    ...[...now]
      .filter(([name, type]) => old.has(name) && old.get(name) !== type)
      .map(([name, type]) => `change column ${name} from ${old.get(name)} to ${type}`),
  ]
  return same('lake', lake.toSorted(), wanted.toSorted())
}

export { keyOf }
