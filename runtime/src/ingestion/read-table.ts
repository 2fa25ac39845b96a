/** A connector's events as the engine takes them: one stream of CSV, with what else was said kept beside it. */
import {
  type ColumnBatch,
  type Connector,
  type ConnectorState,
  type ReadRequest,
  SluiceError,
  type TableSchema,
} from '@sluice/sdk'
import type { RefusedRow } from '../registry/quarantine.ts'
import { encodeBatch } from './encode-batch.ts'
import { RefusedRows } from './refused-rows.ts'
import { isEncoded } from './walled-connector.ts'

export interface TableRead {
  readonly schema: TableSchema
  /** The connector could not go on from its state: the rows are the whole table. */
  readonly whole: boolean
  /** Its rows have marks at their end, beside the columns of the schema. */
  readonly marks: boolean
  readonly isAskedForMarks: boolean
  /** A key may come more than once. */
  readonly repeats: boolean
  /** To be consumed once, to its end. */
  readonly rows: AsyncIterable<Uint8Array>
  /** Ends the read, no row of which was asked for. */
  abandon(): Promise<void>
  /** After the end of `rows`. */
  outcome(): ReadOutcome
}

export interface ReadOutcome {
  readonly state: ConnectorState
  /** Without those that were rejected. */
  readonly rowCount: number
  readonly bytes: number
  readonly rejected: number
  /** Reasons, without values, the first ten kinds. */
  readonly rejectReasons: readonly string[]
  /** By column: values that could not be carried, whose rows came without them. */
  readonly withoutValue: ReadonlyMap<string, number>
  /** Those rows say so. */
  readonly marks: boolean
  /** Columns that somebody uses, and whose values cost rows. */
  readonly rejectedFor: ReadonlySet<string>
  /** The first of the rows that were rejected or came without a value, as many as a quarantine holds. */
  readonly refused: readonly RefusedRow[]
}

export type ReadProgress = (progress: { readonly rows: number; readonly bytes: number }) => void

/** Reads up to the schema; the rows flow when `rows` is iterated, and the connector waits for whoever reads them. */
export async function readTable(
  connector: Connector,
  request: ReadRequest,
  onProgress: ReadProgress,
): Promise<TableRead> {
  const events = connector.read(request)[Symbol.asyncIterator]()
  const first = await nextOf(events, (event) => event.kind === 'schema')
  if (first?.kind !== 'schema') throw brokenConnector('it gave no schema')
  const tally = { bytes: 0, rows: 0, state: null as ConnectorState | null }
  const { schema } = first
  const refused = new RefusedRows()
  const withoutValue = new Map<string, number>()
  const rejectedFor = new Set<string>()
  const columns = new Set(schema.columns.map(({ name }) => name))
  const marks = first.marks === true
  if (marks && request.marked === undefined)
    throw await ended(events, brokenConnector('it gave marks that nobody asked for'))
  const optional = new Set([...(request.optional ?? []), ...(marks ? (request.marked ?? []) : [])])
  async function* rows(): AsyncGenerator<Uint8Array> {
    let isDone = false
    try {
      for (;;) {
        const { value: event, done } = await events.next()
        isDone = done === true
        if (isDone) break
        if (event.kind === 'csv' || event.kind === 'batch') {
          const chunk = event.kind === 'csv' ? event.chunk : csvOf(event.batch)
          if (event.kind === 'batch') tally.rows += event.batch.rowCount
          tally.bytes += chunk.byteLength
          yield chunk
          onProgress(tally)
        } else if (event.kind === 'reject' && event.carried) {
          const { column } = event
          if (column === null || !optional.has(column)) throw brokenConnector('it left out a value')
          withoutValue.set(column, (withoutValue.get(column) ?? 0) + 1)
          refused.add(event, schema, marks)
        } else if (event.kind === 'reject') {
          const { column } = event
          if (column !== null && columns.has(column) && !optional.has(column)) rejectedFor.add(column)
          refused.add(event, schema)
        } else if (event.kind === 'state') {
          tally.state = event.state
          tally.rows = event.rows
        }
      }
    } finally {
      if (!isDone) await events.return?.()
    }
  }
  return {
    schema,
    whole: first.whole === true,
    marks,
    isAskedForMarks: request.marked !== undefined,
    repeats: first.repeats === true,
    rows: rows(),
    async abandon() {
      await events.return?.()
    },
    outcome() {
      if (tally.state === null) throw brokenConnector('it ended without a state')
      return {
        state: tally.state,
        rowCount: tally.rows,
        bytes: tally.bytes,
        rejected: refused.rejected,
        rejectReasons: refused.reasons,
        withoutValue,
        marks,
        rejectedFor,
        refused: refused.rows,
      }
    },
  }
}

type Events = ReturnType<ReturnType<Connector['read']>[typeof Symbol.asyncIterator]>

async function nextOf(events: Events, wanted: (event: { readonly kind: string }) => boolean) {
  for (;;) {
    const { value, done } = await events.next()
    if (done || value === undefined) return null
    if (wanted(value)) return value
    if (value.kind !== 'estimate') throw brokenConnector('it gave rows before the schema')
  }
}

async function ended(events: Events, error: SluiceError): Promise<SluiceError> {
  await events.return?.()
  return error
}

function csvOf(batch: ColumnBatch): Uint8Array {
  return isEncoded(batch) ? batch.csv : encodeBatch(batch)
}

function brokenConnector(why: string): SluiceError {
  return new SluiceError('INTERNAL', `the connector broke its contract: ${why}`, { code: 'connector_contract' })
}
