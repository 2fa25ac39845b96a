/** Rows that were pushed as changes of a log: what `ChangeSpool` takes, and how they lie in the registry until then. */
import { type Column, jsonCells, jsonCellText, SluiceError, type ValueReader, valueReader } from '@sluice/sdk'
import { toldBytes } from '../../parsing/told-bytes.ts'
import { OP_FIELD, type PushTable } from './settings.ts'

export interface PushedRows {
  readonly rows: number
  /** What `readChanges` takes apart. */
  readonly changes: Uint8Array
}

/** Why a row is refused, in words without a value. */
export interface RowFault {
  /** From 0, in the order of the request. */
  readonly index: number
  /** Null: the row as a whole. */
  readonly column: string | null
  readonly reason: string
}

const MAX_FAULTS = 100

/**
 * All rows of a request, or none of them: throws INVALID_DATA `push_rows_refused`, which names those that are at fault.
 * @param documents as `parseJsonAsWritten` gives them
 */
export function pushedRows(documents: readonly unknown[], table: PushTable): PushedRows {
  const writer = new ChangeWriter(table)
  const faults: RowFault[] = []
  const lines: string[] = []
  for (const [index, document] of documents.entries()) {
    const found = writer.write(document)
    if (typeof found === 'string') lines.push(found)
    else if (faults.push({ index, ...found }) === MAX_FAULTS) break
  }
  if (faults.length > 0) throw rowsRefused(faults)
  return { rows: lines.length, changes: Buffer.from(`${headOf(table.columns)}\n${lines.join('\n')}\n`) }
}

function rowsRefused(faults: readonly RowFault[]): SluiceError {
  const many = faults.length === MAX_FAULTS ? 'more rows than are listed' : `${faults.length} rows`
  const errors = faults.map(({ index, column, reason }) => ({
    in: 'body',
    pointer: column === null ? `/${index}` : `/${index}/${column.replaceAll('~', '~0').replaceAll('/', '~1')}`,
    message: reason,
  }))
  return new SluiceError(
    'INVALID_DATA',
    `${faults.length === 1 ? 'one row' : many} cannot be taken: nothing was stored`,
    {
      code: 'push_rows_refused',
      remedy: 'Correct the rows that errors[] names by their index, and send all of them again.',
      details: { errors },
    },
  )
}

interface WrittenColumn extends Column {
  readonly reader: ValueReader
}

type Fault = Omit<RowFault, 'index'>

/** Bytes come as answers tell them, in base64, or as PostgreSQL writes them, behind `\\x`, which no base64 holds. */
function readerOf({ type }: Column): ValueReader {
  const read = valueReader(type)
  if (type !== 'binary') return read
  return (text) => read(text) ?? hexOf(toldBytes(text))
}

const hexOf = (bytes: Buffer | null) => (bytes === null ? null : `\\x${bytes.toString('hex')}`)

class ChangeWriter {
  readonly #columns: readonly WrittenColumn[]
  readonly #names: ReadonlySet<string>
  readonly #key: ReadonlySet<string>

  constructor({ columns, primaryKey }: PushTable) {
    this.#columns = columns.map((column) => ({ ...column, reader: readerOf(column) }))
    this.#names = new Set(columns.map(({ name }) => name))
    this.#key = new Set(primaryKey)
  }

  /** The line of CSV, or what is wrong. */
  write(document: unknown): string | Fault {
    const cells = jsonCells(document)
    if (cells === null) return { column: null, reason: 'it is no object' }
    const op = cells.get(OP_FIELD) ?? { text: 'upsert', kind: 'string' }
    if (op.kind !== 'string' || (op.text !== 'upsert' && op.text !== 'delete'))
      return { column: OP_FIELD, reason: 'it is neither upsert nor delete' }
    // What is null is a name, too.
    for (const name of Object.keys(document as object))
      if (name !== OP_FIELD && !this.#names.has(name))
        return { column: name.slice(0, 128), reason: 'the table has no such column' }
    const isGone = op.text === 'delete'
    const texts: string[] = []
    for (const { name, type, nullable, reader } of this.#columns) {
      const cell = isGone && !this.#key.has(name) ? undefined : cells.get(name)
      if (cell === undefined) {
        if (!nullable) return { column: name, reason: 'it is missing, and of the key' }
        texts.push('')
        continue
      }
      const found = jsonCellText(cell, type === 'json')
      const text = found === null ? null : reader(found)
      if (text === null) return { column: name, reason: `it is no ${type}` }
      texts.push(`"${text.replaceAll('"', '""')}"`)
    }
    // In the order of the file: all of a request have one place in the log.
    return `"${isGone ? 'd' : 'u'}","0",,,${texts.join(',')}`
  }
}

const headOf = (columns: readonly Column[]) =>
  JSON.stringify(columns.map(({ name, type, nullable }) => ({ name, type, nullable })))

const NEW_LINE = 10

/** The columns that the rows had when they came, and the rows as CSV. */
export function readChanges(changes: Buffer): { readonly columns: readonly Column[]; readonly chunk: Uint8Array } {
  const end = changes.indexOf(NEW_LINE)
  return { columns: JSON.parse(changes.toString('utf8', 0, end)) as Column[], chunk: changes.subarray(end + 1) }
}
