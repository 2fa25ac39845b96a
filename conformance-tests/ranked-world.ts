/** A dataset whose cells are known by their places in lists, filled and seen. */
import type { ReadOperation, Row } from '@sluice/sdk'
import type { CheckContext } from './context.ts'
import type { Dataset } from './dataset.ts'
import { type RankedRow, RankedTable } from './ranked-table.ts'

export const RANKED_ROWS = 60

export interface RankedWorld {
  readonly table: RankedTable
  readonly dataset: Dataset
  readonly rows: readonly RankedRow[]
}

export async function rankedWorld(context: CheckContext, tenant?: string): Promise<RankedWorld> {
  const table = new RankedTable(context.capabilities, context.random)
  const rows = table.rows(1, RANKED_ROWS)
  const dataset = await context.dataset(table.schema, {
    indexed: table.indexed,
    ...(tenant === undefined ? {} : { tenant }),
  })
  await dataset.full(context.random.shuffled(rows).map(({ row }) => row))
  await dataset.expectRows('the rows must be there before anything else can be said')
  return { table, dataset, rows }
}

export const typeOf = (table: RankedTable, column: number): string => table.schema.columns[column]?.type ?? ''

export const nameOf = (table: RankedTable, column: number): string => table.schema.columns[column]?.name ?? ''

export const takesFilters = (way: ReadOperation): boolean => way !== 'key'

/** Zeros of a lake have no sign; whether a store keeps it is another check's to say. */
export const unsigned = (row: Row): Row => row.map((cell) => (cell === 0 ? 0 : cell))
