/** What a plan says a version does, line by line: to one product, and to each of a folder's. */
import type { Painter } from './colours.ts'
import type { PlanAnswer, SharedCheckAnswer } from './deploy-answer.ts'
import { plain } from './text-table.ts'

export interface ReadLine {
  readonly input: string
  readonly connection?: string
  readonly mode: string | null
  readonly mode_reason: string | null
  readonly not_by_log?: string
  readonly deletes: string | null
  /** By kind of change. */
  readonly schema_contract?: Readonly<Record<string, string>>
}

/** What plans have besides; each absent of a server that tells none. */
export interface PlannedEffects {
  readonly estimated_from?: string | null
  readonly rows?: {
    readonly before: number | null
    readonly after: number | null
    readonly leaving: number | null
    readonly coming: number | null
    readonly not_counted: string | null
  } | null
  readonly access?: {
    readonly groups: readonly GroupAnswer[]
    readonly groups_left_out: number
    readonly changed_left_out: number
  } | null
  readonly cost?:
    | readonly {
        readonly place: string
        readonly variant: string
        readonly rows: number | null
        readonly bytes: number | null
        readonly whole: boolean
      }[]
    | null
  readonly reaches?: readonly {
    readonly product: string
    readonly namespace: string
    readonly columns: readonly { readonly name: string; readonly classification: string }[]
    readonly blocked: boolean
  }[]
  readonly downstream?: readonly {
    readonly product: string
    readonly namespace: string
    readonly owner: { readonly team: string | null; readonly email: string | null }
    readonly breaks: readonly string[]
  }[]
}

interface GroupAnswer {
  readonly type: string
  readonly name: string | null
  readonly columns: readonly { readonly name: string; readonly before: string; readonly after: string }[]
}

/** Of one kind; the JSON has them all. */
const MOST_LINES = 30
const MOST_NAMES = 8

/** All but verdict, changes, notes and warnings. */
export function planLines(plan: PlanAnswer, paint: Painter): readonly string[] {
  const lines = [
    ...plan.lake.map((change) => plain(`lake: ${change}`)),
    ...bounded(storeLines(plan.stores), 'of stores'),
    ...rowLines(plan),
    ...accessLines(plan.access ?? null, paint),
    ...bounded(costLines(plan), 'of cost'),
    ...plan.reads.flatMap(readLine).map(plain),
    ...(plan.shared_checks ?? []).map(sharedCheckLine),
    ...bounded((plan.downstream ?? []).map(downstreamLine), 'of products made of it'),
    ...bounded((plan.reaches ?? []).map(reachLine), 'of products that it reaches'),
  ]
  return lines.map((line) => `  ${line}`)
}

function bounded(lines: readonly string[], what: string): readonly string[] {
  if (lines.length <= MOST_LINES) return lines
  return [...lines.slice(0, MOST_LINES), `and ${lines.length - MOST_LINES} more lines ${what}: --json has them`]
}

function storeLines(stores: PlanAnswer['stores']): readonly string[] {
  const placeOf = ({ endpoint, variant }: (typeof stores)[number]) => `${endpoint} (${variant})`
  const steps = stores.flatMap((store) =>
    store.steps.map(({ action, description }) => plain(`${placeOf(store)}: ${action}: ${description}`)),
  )
  return [...steps, ...verdictLines(stores, placeOf)]
}

/** Of columns that stores cannot have as they are: what is said of many, or in several places, in the same words is said once. */
export function verdictLines(
  stores: PlanAnswer['stores'],
  placeOf: (store: PlanAnswer['stores'][number]) => string,
): readonly string[] {
  const told = stores.flatMap((store) =>
    (store.columns ?? [])
      .filter(({ verdict }) => verdict === 'forbidden' || verdict === 'unsatisfiable')
      .map((column) => ({ ...column, place: placeOf(store) })),
  )
  const verdicts = [...Map.groupBy(told, ({ verdict, reason }) => JSON.stringify([verdict, reason])).values()]
  return verdicts.map((same) => {
    const { verdict, reason } = same[0] as (typeof same)[number]
    const names = [...new Set(same.map(({ name }) => name))]
    const places = [...new Set(same.map(({ place }) => place))]
    return plain(`${places.join(', ')}: ${listed(names)} ${names.length === 1 ? 'is' : 'are'} ${verdict}: ${reason}`)
  })
}

const listed = (names: readonly string[]): string =>
  names.length <= MOST_NAMES
    ? names.join(', ')
    : `${names.slice(0, MOST_NAMES).join(', ')} and ${names.length - MOST_NAMES} more`

/** How many rows it is going to have; empty where nobody knows. */
export function estimateText({ estimated_rows: rows, estimated_from: from }: PlanAnswer): string {
  if (rows === null) return ''
  return from === 'last_epoch' ? `${rows} rows in its last epoch` : `about ${rows} rows`
}

function rowLines({ rows }: PlanAnswer): readonly string[] {
  if (rows === null || rows === undefined) return []
  const { before, after, leaving, coming, not_counted: why } = rows
  const told = [
    ...(before === null ? [] : [`${before} today`]),
    ...(after === null ? [] : [`${after} by this version`]),
    ...(leaving === null ? [] : [`${leaving} leave`]),
    ...(coming === null ? [] : [`${coming} come`]),
    ...(why === null ? [] : [`not counted: ${why}`]),
  ]
  return [plain(`rows: ${told.join(', ')}`)]
}

const HIDDEN = ['absent', 'forbidden']

/** Of each group only what it is shown otherwise than before; columns that change in the same way on one line. */
function accessLines(access: PlanAnswer['access'] | null, paint: Painter): readonly string[] {
  if (access === null || access === undefined) return []
  const lines = access.groups.flatMap(({ type, name, columns }) => {
    const changed = columns.filter(
      ({ before, after }) => before !== after && !(HIDDEN.includes(before) && HIDDEN.includes(after)),
    )
    const ways = Map.groupBy(changed, ({ before, after }) => JSON.stringify([before, after]))
    return [...ways.values()].map((same) => {
      const { before, after } = same[0] as (typeof same)[number]
      const group = name === null ? type : `${type} ${name}`
      const opens = after === 'clear' && before !== 'absent'
      const way = paint(plain(`${before} -> ${after}`), opens ? 'yellow' : null)
      return `${plain(`shown to ${group}: ${listed(same.map((column) => column.name))}`)}: ${way}`
    })
  })
  const { groups_left_out: left, changed_left_out: more } = access
  const rest = left === 0 ? [] : [`shown to ${left} more groups: not told here, ${more} of them known to change`]
  return [...bounded(lines, 'of who is shown what'), ...rest]
}

/** That all rows are so many at most is known where they were counted. */
function amountOf(rows: number, from: string | null | undefined): string {
  if (from === 'count') return `${rows} rows`
  return from === 'last_epoch' ? `rows (${rows} in its last epoch)` : `rows (about ${rows})`
}

function costLines({ cost, estimated_from: from }: PlanAnswer): readonly string[] {
  return (cost ?? [])
    .filter(({ rows }) => rows !== null)
    .map(({ place, variant, rows, bytes, whole }) => {
      const size = bytes === null ? '' : `, about ${bytes} bytes`
      const most = whole ? 'all' : from === 'count' ? 'at most' : 'at most all'
      return plain(`writes to ${place} (${variant}): ${most} ${amountOf(rows as number, from)}${size}`)
    })
}

function downstreamLine({ namespace, product, owner, breaks }: NonNullable<PlanAnswer['downstream']>[number]): string {
  const who = [owner.team, owner.email].filter((one) => one !== null).join(', ') || 'nobody named'
  const broken = breaks.length === 0 ? '' : `; it would lose ${listed(breaks)}`
  return plain(`made of it: ${namespace}.${product} (owner: ${who})${broken}`)
}

function reachLine({ namespace, product, columns, blocked }: NonNullable<PlanAnswer['reaches']>[number]): string {
  const classes = listed(columns.map(({ name, classification }) => `${name} as ${classification}`))
  return plain(`hides columns of ${namespace}.${product}: ${classes}${blocked ? '; blocked until it is deployed' : ''}`)
}

/** As it runs, in JSON, which is YAML as quality.yaml would have it. */
function sharedCheckLine({ product, version, check }: SharedCheckAnswer): string {
  return plain(`check of ${[product, ...(version === null ? [] : [version])].join(' ')}: ${JSON.stringify(check)}`)
}

/** `read: orders: incremental, because …; rows that are gone by key_sweep`. Nothing of what no sync reads, and of a contract that takes all. */
export function readLine(read: ReadLine): readonly string[] {
  const { input, mode, mode_reason: reason, not_by_log: notByLog, deletes, schema_contract } = read
  const words = Object.entries(schema_contract ?? {})
  const isEvolving = words.every(([, word]) => word === 'evolve')
  const text = words.map(([kind, word]) => `${kind}: ${word}`).join(', ')
  const contract = isEvolving ? [] : [`contract: ${input}: ${text}`]
  if (mode === null) return [...(reason === null ? [] : [`read: ${input}: ${reason}`]), ...contract]
  const gone =
    deletes === 'key_sweep' || deletes === 'unseen' || deletes === 'log' ? `; rows that are gone: ${deletes}` : ''
  const log = notByLog === undefined ? '' : `; not cdc: ${notByLog}`
  return [`read: ${input}: ${mode}, because ${reason}${gone}${log}`, ...contract]
}
