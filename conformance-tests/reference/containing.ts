/** The reference store's declared operation: rows whose text holds another one, those that hold it most often first. */
import {
  batchFromRows,
  type ColumnBatch,
  type DeclaredOperation,
  type OperationInput,
  type OperationPlan,
  type Row,
  rowPasses,
  SluiceError,
  type TableSchema,
  type Value,
} from '@sluice/sdk'
import type { Content, StoredDataset } from './memory.ts'

const MATCHES = 'matches'

export const containing: DeclaredOperation = {
  summary: 'Rows whose text holds another one, those that hold it most often first',
  inputSchema: {
    type: 'object',
    additionalProperties: false,
    required: ['column', 'text'],
    properties: {
      column: { type: 'string', minLength: 1, maxLength: 200, description: 'A column of text.' },
      text: { type: 'string', minLength: 1, maxLength: 200, description: 'Taken as it is, its case too.' },
    },
  },
  example: { column: 'name', text: 'a' },
  adds: [{ name: MATCHES, type: 'integer', nullable: false }],
}

/** The text decides by its own column, and by no other. */
export function selects({ input, schema }: Pick<OperationInput, 'input' | 'schema'>): readonly string[] {
  const name = String(input['column'])
  const column = schema.columns.find((one) => one.name === name)
  if (column === undefined || column.type === 'string') return [name]
  throw new SluiceError('INVALID_DATA', `the column ${name} holds no text`, {
    code: 'invalid_value',
    remedy: 'Name a column of type string.',
  })
}

export interface OperationPage extends ColumnBatch {
  readonly next?: readonly Value[]
}

export function rowsContaining(stored: StoredDataset, content: Content, plan: OperationPlan): OperationPage {
  const { schema } = stored
  const cell = at(schema, String(plan.input['column']))
  const allowed = stored.policy === null ? [] : content.versions.filter(({ validTo }) => validTo === null)
  const found = allowed
    .filter(({ row }) => rowPasses(plan.policy.rows, schema, row, plan.policy.claims))
    .map(({ key, row }) => ({ key, row, matches: countOf(String(plan.input['text']), row[cell] ?? null) }))
    .filter(({ matches }) => matches > 0)
    .sort((left, right) => right.matches - left.matches || compareTexts(left.key, right.key))
  const rest = found.filter((one) => plan.after === undefined || isAfter(one, positionOf(plan.after)))
  const page = rest.slice(0, plan.limit)
  const rows = page.map(
    ({ row, matches }): Row =>
      plan.columns.map((name) => (name === MATCHES ? matches : (row[at(schema, name)] ?? null))),
  )
  const last = page.at(-1)
  const next = rest.length > page.length && last !== undefined ? { next: [last.matches, last.key] } : {}
  return { ...batchFromRows(rows, plan.columns.length), ...next }
}

const at = ({ columns }: TableSchema, name: string) => columns.findIndex((column) => column.name === name)

const countOf = (text: string, value: Value) => (typeof value === 'string' ? value.split(text).length - 1 : 0)

const compareTexts = (left: string, right: string) => (left < right ? -1 : left > right ? 1 : 0)

interface Position {
  readonly matches: number
  readonly key: string
}

const isAfter = (one: Position, last: Position) =>
  one.matches < last.matches || (one.matches === last.matches && compareTexts(one.key, last.key) > 0)

function positionOf([matches, key]: readonly Value[]): Position {
  if (typeof matches === 'number' && typeof key === 'string') return { matches, key }
  throw new SluiceError('INVALID_DATA', 'the cursor does not belong to this operation', {
    code: 'invalid_cursor',
    remedy: 'Begin again from the first page.',
  })
}
