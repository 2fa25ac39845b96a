/** The search: BM25 of each searched column by itself, added up by the weights of the columns. */
import {
  batchFromRows,
  type Clock,
  checkOperationPlan,
  checkPosition,
  notMaterialized,
  type OperationPlan,
  type OrderPart,
  projectRow,
  type ReadBatch,
  type Row,
  rowPasses,
  type TableSchema,
  type Target,
} from '@sluice/sdk'
import { type Cell, toCell } from 'sluice-lookup-sqlite/cells'
import type { Database } from 'sluice-lookup-sqlite/database'
import { allColumns, datasetOf, rowsTable } from 'sluice-lookup-sqlite/datasets'
import { capabilities, SCORE } from './capabilities.ts'
import { type Config, weightOf } from './config.ts'
import { type Searched, wordsTable } from './provisioning.ts'
import { searchedColumns, type Terms, termsOf } from './question.ts'
import { afterKey, checkpoint, identityColumns, rowFrom, typeOf, withIdentity } from './reading.ts'

/** The page and its epoch, in one transaction. */
export function searchPage(database: Database, clock: Clock, target: Target<Config>, plan: OperationPlan): ReadBatch {
  checkOperationPlan(plan, capabilities)
  const check = checkpoint(clock, plan)
  return database.transaction('DEFERRED', () => {
    const dataset = datasetOf(database, target)
    if (dataset.applied === null) throw notMaterialized()
    const order = orderOf(dataset)
    if (plan.after) checkPosition(plan.after, order)
    const found = ranked(database, dataset, plan, check)
    const schema = scored(withIdentity(dataset.schema))
    const page = found.slice(0, plan.limit)
    const last = found.length > page.length ? page.at(-1) : undefined
    const rows = page.map((row) => projectRow(row, schema, plan.columns))
    const columns = order.map(({ column }) => column)
    const next = last === undefined ? {} : { next: projectRow(last, schema, columns) }
    return { ...batchFromRows(rows, plan.columns.length), epoch: dataset.applied.epoch, ...next }
  })
}

/** The score stands first: no column of the product can be taken for it. */
function scored({ columns, primaryKey }: TableSchema): TableSchema {
  return { columns: [{ name: SCORE, type: 'double', nullable: false }, ...columns], primaryKey }
}

/** The best first, and rows of one score by their key. */
function orderOf({ schema }: Searched): readonly OrderPart[] {
  const identified = withIdentity(schema)
  return [
    { column: SCORE, type: 'double', direction: 'desc' },
    ...identified.primaryKey.map((column) => {
      return { column, type: typeOf(identified, column), direction: 'asc' as const }
    }),
  ]
}

/** From the plan's position on, one row more than the page holds; each with its score before its own cells. */
function ranked(database: Database, dataset: Searched, plan: OperationPlan, check: () => void): readonly Row[] {
  const terms = termsOf(plan.input, dataset.config)
  const columns = searchedColumns(plan.input, dataset.config)
  // Without a policy there are no rows, whatever was written. A masked twin may have no text column left.
  if (dataset.policy === null || terms.terms.length === 0 || columns.length === 0) return []
  const schema = withIdentity(dataset.schema)
  const { text, values } = statementOf(dataset, columns, terms, plan.after)
  const rows: Row[] = []
  for (const found of database.each(text, ...values)) {
    check()
    const row = rowFrom(found, dataset)
    if (!rowPasses(plan.policy.rows, schema, row, plan.policy.claims)) continue
    rows.push([Number(found[SCORE]), ...row])
    if (rows.length > plan.limit) break
  }
  return rows
}

interface Statement {
  readonly text: string
  readonly values: readonly Cell[]
}

function statementOf(
  dataset: Searched,
  columns: readonly string[],
  { terms, isEach }: Terms,
  after: OperationPlan['after'],
): Statement {
  const tables = columns.map((name) => wordsTable(dataset, name))
  const identity = identityColumns(dataset)
  const scores = tables.map(
    (words, part) => `SELECT rowid AS id, ${part} AS part, -rank * ? AS score FROM ${words} WHERE ${words} MATCH ?`,
  )
  const anywhere = tables.map((words) => `SELECT rowid FROM ${words} WHERE ${words} MATCH ?`).join(' UNION ')
  const required = isEach && terms.length > 1 ? terms : []
  const conditions = [
    ...required.map(() => `id IN (${anywhere})`),
    ...(after ? [`(score < ? OR (score = ? AND ${afterKey(identity)}))`] : []),
  ]
  const where = conditions.length === 0 ? '' : ` WHERE ${conditions.join(' AND ')}`
  // Scores of a row are added in the order of the columns, since sums of floats hang on it.
  const text = `
    WITH parts AS (${scores.join(' UNION ALL ')}),
      scores AS (SELECT id, sum(score ORDER BY part) AS score FROM parts GROUP BY id)
    SELECT id, score, ${allColumns(dataset.schema).join(', ')} FROM scores JOIN ${rowsTable(dataset)} USING (id)${where}
    ORDER BY score DESC, ${identity.join(', ')}`
  const weighed = columns.flatMap((name) => [weightOf(dataset.config, name), terms.join(' OR ')])
  const everywhere = required.flatMap((term) => tables.map(() => term))
  return { text, values: [...weighed, ...everywhere, ...(after ? positionCells(dataset, after) : [])] }
}

function positionCells(dataset: Searched, after: readonly [...Row]): readonly Cell[] {
  const [score, ...cells] = orderOf(dataset).map(({ type }, index) => toCell(after[index] ?? null, type))
  return [score ?? null, score ?? null, ...cells]
}
