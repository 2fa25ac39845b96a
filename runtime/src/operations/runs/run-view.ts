/**
 * A run as its reader may see it: sizes of raw tables are data of theirs, and what it made of a product is for who may read
 * the product.
 */
import { countTexts, type ProductOutcome } from '../../ingestion/product-outcome.ts'
import type { ProductProgress } from '../../ingestion/product-progress.ts'
import { stepOf } from '../../quality/carried-rows.ts'
import type { LogLine, TableProgress } from '../../registry/run-progress.ts'
import type { Run } from '../../registry/runs.ts'
import { UNTOLD } from '../products/readable-product.ts'
import type { OutcomeSight } from './outcome-sight.ts'

/** With `bytes` null, and rows in steps, for who may not read the table. */
export type SeenTable = Omit<TableProgress, 'bytes'> & {
  readonly bytes: number | null
}

/** By `productReader`. */
type MayHear = (productId: string) => Promise<boolean>

const outcomesOf = ({ result }: Run): readonly ProductOutcome[] =>
  (result as { readonly products?: readonly ProductOutcome[] } | null)?.products ?? []

/** What is being done; null where that is not known, or none of it is a product's. */
const progressOf = ({ state, result }: Run): ProductProgress | null =>
  state === 'running' ? ((result as { readonly progress?: ProductProgress } | null)?.progress ?? null) : null

async function hiddenOutcomes(run: Run, mayHear: MayHear): Promise<readonly ProductOutcome[]> {
  const outcomes = outcomesOf(run)
  const rights = await Promise.all(outcomes.map(({ id }) => mayHear(id)))
  return outcomes.filter((_, index) => !rights[index])
}

/** The run without what it tells of products that the reader may not read, and of columns that are hidden from him. */
export async function seenRun(run: Run, mayHear: MayHear, sight: OutcomeSight): Promise<Run> {
  const hidden = await hiddenOutcomes(run, mayHear)
  const { error } = run
  const isHidden = run.productId !== null && !(await mayHear(run.productId))
  // The error of a run of several products begins with the name of the one that it is of.
  const isOf = ({ reason }: ProductOutcome) => reason !== null && (error?.message.endsWith(reason.message) ?? false)
  const isOfHidden = isHidden || hidden.some(isOf)
  const shown = outcomesOf(run).filter((outcome) => !hidden.includes(outcome))
  const products = await Promise.all(shown.map((outcome) => seenOutcome(run, outcome, sight)))
  const progress = progressOf(run)
  const told = progress !== null && (await mayHear(progress.product_id)) ? progress : null
  return {
    ...run,
    result: { ...run.result, products, progress: told },
    error:
      error !== null && isOfHidden ? UNTOLD : error && { ...error, message: asSeen(error.message, shown, products) },
  }
}

/** The text with the reasons that the reader is told in place of those that were kept. */
function asSeen(text: string, made: readonly ProductOutcome[], seen: readonly (ProductOutcome | null)[]): string {
  return made.reduce((told, { reason }, at) => {
    const shown = seen[at]?.reason
    return reason && shown ? told.replaceAll(reason.message, () => shown.message) : told
  }, text)
}

async function seenOutcome({ id }: Run, outcome: ProductOutcome, sight: OutcomeSight): Promise<ProductOutcome> {
  const lost = Object.entries(outcome.lossy_values ?? {})
  const isClear = lost.length === 0 ? () => true : await sight.clearColumns(outcome.id)
  const isOfChecks = outcome.materialization_id !== null && outcome.quarantined_rows !== null
  const aside = !isOfChecks || (await sight.seesAside(id, outcome.id)) ? outcome.quarantined_rows : null
  const { reason } = outcome
  const blocked = reason?.code === 'quality_blocked' ? await sight.blockedText(id, outcome.id) : null
  return {
    ...outcome,
    lossy_values: Object.fromEntries(lost.filter(([column]) => isClear(column))),
    quarantined_rows: aside,
    reason: reason && blocked !== null ? { ...reason, message: blocked } : reason,
  }
}

/** By `rawReader`. */
type MayRead = (connectionId: string, table: string) => Promise<boolean>

export async function seenTables(run: Run, tables: readonly TableProgress[], mayRead: MayRead): Promise<SeenTable[]> {
  return Promise.all(
    tables.map(async (table) => {
      const { rowsRead, rowsWritten, rowsRejected, rowsRemoved, rowsSuperseded = null } = table
      if (run.connectionId === null || (await mayRead(run.connectionId, table.name))) return table
      const removed = rowsRemoved === null ? null : stepOf(rowsRemoved)
      return {
        ...table,
        rowsRead: stepOf(rowsRead),
        rowsWritten: stepOf(rowsWritten),
        rowsRejected: stepOf(rowsRejected),
        rowsRemoved: removed,
        rowsSuperseded: rowsSuperseded === null ? null : stepOf(rowsSuperseded),
        bytes: null,
      }
    }),
  )
}

/** As a line of a product begins, or of a table whose name is as plain. */
const OF_A_PRODUCT = /^([a-z][\w-]*\.[a-z][\w-]*): /i

/**
 * Without the lines of tables and products that the reader may not read: they count rows. Each begins with its table, or with
 * its product; while a run goes on, a line may be of a product whose outcome is not known yet.
 */
export async function seenLines(
  run: Run,
  tables: readonly TableProgress[],
  lines: readonly LogLine[],
  { mayRead, mayHear, sight }: { readonly mayRead: MayRead; readonly mayHear: MayHear; readonly sight: OutcomeSight },
): Promise<readonly LogLine[]> {
  const { connectionId, productId } = run
  if (connectionId === null && !(productId !== null && (await mayHear(productId)))) return []
  const told =
    connectionId === null
      ? await linesOfWave(run, lines, mayHear)
      : await linesOfRead(run, connectionId, tables, lines, { mayRead, mayHear })
  const outcomes = await Promise.all(
    outcomesOf(run).map(async (made) => ({
      made,
      seen: (await mayHear(made.id)) ? await seenOutcome(run, made, sight) : null,
    })),
  )
  return told.map((line) => withoutHidden(line, outcomes))
}

/** What follows it counts what the product is made of: `outcomeText`. */
const PUBLISHED = /^(\S+: epoch \d+ with \d+ rows is published); /

/** The line of a product without the counts that its outcome does not tell the reader; all of them where there is none yet. */
function withoutHidden(
  line: LogLine,
  outcomes: readonly { readonly made: ProductOutcome; readonly seen: ProductOutcome | null }[],
): LogLine {
  const bare = PUBLISHED.exec(line.message)?.[1]
  if (bare === undefined) {
    const [made, seen] = [outcomes.map((one) => one.made), outcomes.map((one) => one.seen)]
    return { ...line, message: asSeen(line.message, made, seen) }
  }
  const outcome = outcomes.find(({ made }) => bare.startsWith(`${made.name}: `))
  if (outcome === undefined || outcome.seen === null) return { ...line, message: bare }
  const { made, seen } = outcome
  const texts = countTexts(made)
  const late = bare.length + texts.reduce((length, text) => length + `; ${text}`.length, 0)
  // The registry has the columns in an order of its own.
  const counted = line.message.slice(bare.length, late)
  const isOfOutcome = texts.every((text) => counted.includes(`; ${text}`))
  const message = [bare, ...countTexts(seen)].join('; ') + (isOfOutcome ? line.message.slice(late) : '')
  // A line is a warning for values that were lost, too.
  return { ...line, message, level: message === bare && made.state === 'succeeded' ? 'info' : line.level }
}

/**
 * Of a run that was asked for a product, whose own line is the first: what is made of it is made in the run, too. While an
 * attempt goes on, outcomes of those may not be known that lines of the one before tell of.
 */
async function linesOfWave(run: Run, lines: readonly LogLine[], mayHear: MayHear): Promise<readonly LogLine[]> {
  const subjectOf = ({ message }: LogLine) => OF_A_PRODUCT.exec(message)?.[1]
  const hidden = await hiddenOutcomes(run, mayHear)
  const known = outcomesOf(run).flatMap((outcome) => (hidden.includes(outcome) ? [] : [outcome.name]))
  const shown = new Set([...known, lines.map(subjectOf).find((subject) => subject !== undefined)])
  return lines.filter((line) => subjectOf(line) === undefined || shown.has(subjectOf(line)))
}

async function linesOfRead(
  run: Run,
  connectionId: string,
  tables: readonly TableProgress[],
  lines: readonly LogLine[],
  { mayRead, mayHear }: { readonly mayRead: MayRead; readonly mayHear: MayHear },
): Promise<readonly LogLine[]> {
  const rights = await Promise.all(tables.map(({ name }) => mayRead(connectionId, name)))
  const hiddenTables = tables.flatMap(({ name }, index) => (rights[index] ? [] : [`${name}: `]))
  const hiddenProducts = (await hiddenOutcomes(run, mayHear)).map(({ name }) => name)
  const shownProducts = outcomesOf(run).flatMap(({ name }) => (hiddenProducts.includes(name) ? [] : [name]))
  const isShown = async ({ message }: LogLine): Promise<boolean> => {
    if (hiddenTables.some((beginning) => message.startsWith(beginning))) return false
    const subject = OF_A_PRODUCT.exec(message)?.[1]
    if (subject === undefined || shownProducts.includes(subject)) return true
    return !hiddenProducts.includes(subject) && (await mayRead(connectionId, subject))
  }
  const shown = await Promise.all(lines.map(isShown))
  return lines.filter((_, index) => shown[index])
}
