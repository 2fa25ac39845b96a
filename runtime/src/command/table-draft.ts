/** The product that is a table of a source, as far as discovery knows the table. */
import { lakeNameRefusal } from '@sluice/iceberg/names'
import { isLogicalType, type LogicalType } from '@sluice/sdk'
import { DEFAULT_SCHEMA, rawTableName } from '../manifest/context.ts'
import { MANIFEST_LIMITS } from '../manifest/files/shape.ts'
import { sourceColumnsRefusal } from '../manifest/names.ts'
import { guessedClass } from './guessed-classes.ts'
import type { DraftColumn, ProductDraft } from './product-draft.ts'
import { ColumnNames, nameFrom, whyRenamed } from './product-names.ts'
import {
  keyOf,
  noKeyType,
  proposedChecks,
  proposedEndpoints,
  proposedRole,
  proposedTime,
  type StoreOnOffer,
} from './proposed-parts.ts'

/** As the server's discovery tells it. */
export interface DiscoveredTable {
  readonly schema: string
  readonly name: string
  readonly kind: string
  readonly primary_key: readonly string[]
  readonly columns: readonly {
    readonly name: string
    readonly type: string
    readonly source_type: string
    readonly nullable: boolean
    /** By which products hide it already, as far as the caller may know; absent: of a server that tells none. */
    readonly classes?: readonly string[]
  }[]
  readonly suggested_cursor: string | null
}

export interface DraftChoices {
  /** Null: of the table. */
  readonly name: string | null
  /** Null: of the schema of the table. */
  readonly namespace: string | null
  readonly stores: readonly StoreOnOffer[]
  /** Whether classes are proposed. */
  readonly guess: boolean
}

export interface Drafted {
  readonly draft: ProductDraft
  readonly leftOut: readonly string[]
}

type SourceColumn = DiscoveredTable['columns'][number]

export interface Carried {
  readonly source: string
  readonly column: DraftColumn
}

/** Throws where the lake cannot have the table at all. */
export function draftOfTable(connection: string, table: DiscoveredTable, choices: DraftChoices): Drafted {
  const refusal = whyUnreadable(table)
  if (refusal !== null) {
    const remedy = 'Have a view made of it that has other names, and begin with that.'
    throw Object.assign(new Error(`${table.schema}.${table.name} cannot be read: ${refusal}`), { remedy })
  }
  const { carried, leftOut } = carriedColumns(table)
  if (carried.length === 0) throw new Error(`${table.schema}.${table.name} has no column that can be carried`)
  const { key, note: keyNote } = usableKey(table, carried)
  const columns = withRoles(carried, key, table, choices.guess)
  const ofTable = nameFrom(table.name, 'name') ?? nameFrom(table.schema, 'name')
  const name = choices.name ?? ofTable ?? 'my_product'
  const namespace = choices.namespace ?? namespaceOf(table)
  const { endpoints, notes: endpointNotes } = proposedEndpoints(name, columns, choices.stores)
  const alias = ofTable === null || ofTable === 'this' ? 'source' : ofTable
  const isRenamed = carried.some(({ source, column }) => source !== column.name)
  const draft: ProductDraft = {
    product: {
      name,
      namespace,
      archetype: 'source_aligned',
      description: '',
      classification: 'internal',
    },
    inputs: [
      {
        name: alias,
        connection,
        table: `${table.schema}.${table.name}`,
        ...(leftOut.length > 0 ? { columns: carried.map(({ source }) => source) } : {}),
      },
    ],
    inputNotes: [modeNote(table)],
    columns,
    columnNotes: [...(keyNote === null ? [] : [keyNote]), ...leftOut.slice(0, MOST_NOTES), ...more(leftOut)],
    output: { write_mode: keyOf(columns).length > 0 ? 'merge' : 'replace' },
    quality: proposedChecks(columns),
    endpoints,
    endpointNotes,
    compute: {
      engine: 'auto',
      ...(isRenamed ? { transform: projection(carried, alias) } : {}),
      trigger: 'on_ingestion',
    },
  }
  return { draft, leftOut }
}

/** As inputs.yaml would be refused. */
function whyUnreadable({ schema, name, columns }: DiscoveredTable): string | null {
  const full = `${schema}.${name}`
  const refusal = lakeNameRefusal(rawTableName(full))
  if (refusal !== null) return `its name ${refusal}, and the lake keeps it under that`
  if (full.length > LONGEST_SOURCE_NAME) return `its name is longer than ${LONGEST_SOURCE_NAME} characters`
  return sourceColumnsRefusal(columns.map((column) => column.name))
}

const MOST_NOTES = 100

const more = (notes: readonly string[]): readonly string[] =>
  notes.length > MOST_NOTES ? [`and ${notes.length - MOST_NOTES} more`] : []

const namespaceOf = ({ schema }: DiscoveredTable): string =>
  (schema === DEFAULT_SCHEMA ? null : nameFrom(schema, 'namespace')) ?? 'core'

/** Longer names cannot be said in inputs.yaml. */
const LONGEST_SOURCE_NAME = 255

/** The key first, in its own order; then the others in theirs, as many as a product may have. */
function carriedColumns({ columns, primary_key: key }: DiscoveredTable) {
  const leftOut: string[] = []
  const ofKey = key.flatMap((name) => columns.find((column) => column.name === name) ?? [])
  const ordered = [...ofKey, ...columns.filter(({ name }) => !key.includes(name))]
  const possible = ordered.filter((column) => {
    const why = whyLeftOut(column)
    if (why !== null) leftOut.push(`left out: ${column.name}: ${why}`)
    return why === null
  })
  const taken = possible.slice(0, MANIFEST_LIMITS.columns)
  for (const { name } of possible.slice(MANIFEST_LIMITS.columns)) {
    leftOut.push(`left out: ${name}: a product has at most ${MANIFEST_LIMITS.columns} columns`)
  }
  const names = new ColumnNames(taken.map(({ name }) => name).filter((name) => whyRenamed(name) === null))
  const carried = taken.map((column): Carried => {
    const why = whyRenamed(column.name)
    const renamed = why === null ? column.name : names.nameFor(column.name)
    const comment = why === null ? {} : { comment: `"${column.name}" at the source, which ${why}` }
    const { type, nullable } = column
    return {
      source: column.name,
      column: { name: renamed, type, ...(nullable ? {} : { nullable: false }), ...comment },
    }
  })
  return { carried, leftOut }
}

function whyLeftOut({ name, type, source_type: sourceType }: SourceColumn): string | null {
  if (!isLogicalType(type)) return `the lake has no type for ${sourceType}`
  if (name === '' || name.length > LONGEST_SOURCE_NAME) return 'inputs.yaml cannot say a name of that length'
  return name.isWellFormed() && !name.includes('\0') ? null : 'its name is no text'
}

/** A key is one only as a whole. */
function usableKey({ primary_key: key }: DiscoveredTable, carried: readonly Carried[]) {
  if (key.length === 0) {
    return { key: [], note: 'The table declares no key. Give the columns that tell its rows apart the role identity.' }
  }
  for (const name of key) {
    const found = carried.find(({ source }) => source === name)
    const why = found === undefined ? 'it is left out' : noKeyType(found.column.type)
    if (why !== null) return { key: [], note: `The key of the table is none here: of ${name}, ${why}.` }
  }
  return { key, note: null }
}

/** @param guesses whether classes are proposed by names; what products know of a column is taken in any case */
function withRoles(
  carried: readonly Carried[],
  key: readonly string[],
  table: DiscoveredTable,
  guesses: boolean,
): readonly DraftColumn[] {
  const classed = carried.map(({ source, column }): DraftColumn => {
    const isKey = key.includes(source)
    const type = column.type as LogicalType
    const guessed = guesses ? guessedClass(source, type, table.name) : null
    // Of the classes that are masked without being configured it is the one whose mask still tells rows apart.
    const guess = guessed && (isKey ? 'pii.identifier' : guessed.classification)
    const known = table.columns.find(({ name }) => name === source)?.classes ?? []
    const classification = (known.includes(guess ?? '') ? guess : known[0]) ?? guess
    const role = isKey ? 'identity' : classification === null ? proposedRole(column.name, type) : 'attribute'
    const reason = known.length > 0 ? knownReason(known) : guessed && `guessed by its name: ${guessed.word}`
    const comment = [column.comment, reason].filter((one) => typeof one === 'string').join('; ')
    return {
      ...column,
      role,
      ...(isKey ? { nullable: false } : {}),
      ...(classification === null ? {} : { classification }),
      ...(comment === '' ? {} : { comment }),
    }
  })
  const time = proposedTime(classed)
  return classed.map((column) => (column.name === time ? { ...column, role: 'time' } : column))
}

/** With another class, its deployment would be a lowering of these. */
function knownReason(known: readonly string[]): string {
  return known.length === 1
    ? 'its class in products that are made of it already'
    : `products that are made of it already have it as ${known.join(', ')}`
}

function modeNote({ primary_key: key, suggested_cursor: cursor, columns }: DiscoveredTable): string {
  const type = columns.find(({ name }) => name === cursor)?.type
  if (cursor === null || type === undefined) return 'Read in full: the table has no column that tells what has changed.'
  if (key.length === 0) return 'Read in full: the table declares no key, by which a row could be read again.'
  return `Read incrementally by ${cursor}, the column that tells what has changed; deletes are found by the key.`
}

/** Where the plan of the draft says so. */
export const LOG_NOTE =
  'Read by the log of its source (mode cdc), which tells deletes, too: no mode is written, and the source has all that this needs.'

const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`

/** A transform that only gives columns their names. */
export function projection(carried: readonly Carried[], alias: string): string {
  const lines = carried.map(({ source, column }) =>
    source === column.name ? quoted(source) : `${quoted(source)} AS ${quoted(column.name)}`,
  )
  return `SELECT ${lines.join(',\n  ')}\nFROM ${quoted(alias)}\n`
}
