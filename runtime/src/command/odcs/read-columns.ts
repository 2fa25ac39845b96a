/** Properties of a contract as columns, with the key in its order. */
import type { LogicalType } from '@sluice/sdk'
import { COLUMN_ROLES } from '../../manifest/files/output.ts'
import { CLASSIFICATION_LEVELS } from '../../manifest/files/product.ts'
import { MANIFEST_LIMITS } from '../../manifest/files/shape.ts'
import { isTimeType } from '../../manifest/manifest-set.ts'
import { guessedClass } from '../guessed-classes.ts'
import type { DraftColumn } from '../product-draft.ts'
import { ColumnNames, whyRenamed } from '../product-names.ts'
import { noKeyType, proposedRole, proposedTime } from '../proposed-parts.ts'
import { OWN } from './contract.ts'
import { ownProperties, type Part } from './part.ts'
import { contractType, typeFrom } from './types.ts'

export interface ReadColumns {
  readonly columns: readonly DraftColumn[]
  /** What the source calls each. */
  readonly sources: readonly string[]
  readonly properties: readonly { readonly part: Part; readonly column: string }[]
  readonly partitioning: readonly Readonly<Record<string, unknown>>[]
  nameOf(property: string): string | null
}

interface Keyed {
  readonly part: Part
  readonly written: string
  readonly source: string
  readonly keyPosition: number | null
  readonly partition: { readonly position: number; readonly transform: string | null } | null
  readonly column: DraftColumn
}

/** @param guess whether classes are proposed where the contract says none */
export function columnsOf(object: Part, guess: boolean): ReadColumns {
  const parts = object.parts('properties')
  const table = object.text('name') ?? ''
  const named = parts
    .map((part) => ({ part, written: part.text('name') ?? '' }))
    .filter(({ part, written }) => {
      if (written === '') part.say('', 'has no name, and is left out')
      return written !== ''
    })
  for (const { part } of named.slice(MANIFEST_LIMITS.columns))
    part.say('', `a product has at most ${MANIFEST_LIMITS.columns} columns`)
  const taken = named.slice(0, MANIFEST_LIMITS.columns)
  if (taken.length === 0) throw new Error('the contract describes no columns: the properties of its object are empty')
  const names = new ColumnNames([])
  const keyed = taken.map(({ part, written }) => {
    const column = whyRenamed(written) === null && !names.has(written) ? names.keep(written) : names.nameFor(written)
    if (column !== written) part.say('name', `"${written.slice(0, 100)}" is ${column} here`)
    return columnFrom(part, written, column, guess ? table : null)
  })
  const ordered = inOrderOfKey(keyed)
  const key = usableKey(ordered, object)
  const withKey = ordered.map(({ column, keyPosition, ...rest }) => ({
    ...rest,
    column: keyPosition !== null && key ? { ...column, role: 'identity', nullable: false } : column,
  }))
  const byName = new Map(withKey.map(({ written, column }) => [written, column.name]))
  const time = withKey.some(({ column }) => column.role === 'time')
    ? null
    : proposedTime(withKey.map(({ column }) => column))
  return {
    columns: withKey.map(({ column }) =>
      column.name === time && column.role === undefined ? { ...column, role: 'time' } : withRole(column),
    ),
    sources: withKey.map(({ source }) => source),
    properties: withKey.map(({ part, column }) => ({ part, column: column.name })),
    partitioning: withKey
      .flatMap(({ column, partition }) => (partition === null ? [] : [{ ...partition, column: column.name }]))
      .toSorted((a, b) => a.position - b.position)
      .map(({ column, transform }) => ({ column, ...(transform === null ? {} : { transform }) })),
    nameOf: (property) => byName.get(property) ?? null,
  }
}

const withRole = (column: DraftColumn): DraftColumn =>
  column.role === undefined ? { ...column, role: proposedRole(column.name, column.type as LogicalType) } : column

/** Columns of the key stand in its order, wherever they stand; all others where they are. */
function inOrderOfKey(columns: readonly Keyed[]): readonly Keyed[] {
  const ofKey = columns.filter(({ keyPosition }) => keyPosition !== null)
  const sorted = ofKey.toSorted((a, b) => (a.keyPosition as number) - (b.keyPosition as number))
  let next = 0
  return columns.map((column) => (column.keyPosition === null ? column : (sorted[next++] as Keyed)))
}

function usableKey(columns: readonly Keyed[], object: Part): boolean {
  const misfit = columns.find(({ keyPosition, column }) => keyPosition !== null && noKeyType(column.type) !== null)
  if (misfit === undefined) return true
  object.say('', `the primary key is none here: of ${misfit.column.name}, ${noKeyType(misfit.column.type)}`)
  return false
}

/** @param table what it is called: where classes are guessed */
function columnFrom(part: Part, written: string, name: string, table: string | null): Keyed {
  const options = part.part('logicalTypeOptions')
  const physical = part.text('physicalType')
  const logical = part.text('logicalType')
  const { type, lost } = typeFrom(physical, logical, {
    format: options.value('format'),
    timezone: options.value('timezone'),
  })
  if (lost !== null) part.say(physical === null ? 'logicalType' : 'physicalType', lost)
  sayUnkept(part, options, type, lost !== null)
  if (part.has('properties') || part.has('items')) {
    part.say(part.has('items') ? 'items' : 'properties', 'what is inside of a value is not described here')
    part.value('items')
    part.value('properties')
  }
  const description = part.text('description')
  const isRequired = part.flag('required')
  const isKey = part.flag('primaryKey')
  const position = part.number('primaryKeyPosition')
  const isPartition = part.flag('partitioned')
  const partition = part.number('partitionKeyPosition')
  const own = ownProperties(part, [OWN.role, OWN.partition])
  const role = own.get(OWN.role)
  const transform = own.get(OWN.partition)
  const isRole = (COLUMN_ROLES as readonly unknown[]).includes(role) && role !== 'identity'
  const fits = role !== 'time' || isTimeType(type)
  return {
    part,
    written,
    source: part.text('physicalName') ?? written,
    keyPosition: isKey ? (position ?? Number.MAX_SAFE_INTEGER) : null,
    partition: isPartition
      ? { position: partition ?? Number.MAX_SAFE_INTEGER, transform: typeof transform === 'string' ? transform : null }
      : null,
    column: {
      name,
      type,
      ...(isRole && fits ? { role: role as string } : {}),
      ...(isRequired ? { nullable: false } : {}),
      ...classFrom(part, written, type, table),
      ...(description === null ? {} : { description: description.slice(0, MANIFEST_LIMITS.descriptionLength) }),
    },
  }
}

/** What a contract that is made of the column says otherwise. */
function sayUnkept(part: Part, options: Part, type: LogicalType, isTold: boolean): void {
  const back = contractType(type)
  const logical = part.text('logicalType')
  if (logical !== null && logical !== back.logicalType && !isTold) {
    part.say('logicalType', `"${logical.slice(0, 100)}" is ${type} here`)
  }
  for (const key of ['format', 'timezone']) {
    const value = options.value(key)
    if (value === undefined || value === back.logicalTypeOptions?.[key]) continue
    options.say(key, `${JSON.stringify(value)?.slice(0, 100)} is not kept: the column is of the type ${type} here`)
  }
}

/** A class that is not known here is masked: what somebody thought worth a word is not shown to everybody. */
function classFrom(part: Part, written: string, type: LogicalType, table: string | null): Partial<DraftColumn> {
  const said = part.text('classification')
  if (said === null) {
    const guessed = table === null ? null : guessedClass(written, type, table)
    return guessed === null
      ? {}
      : { classification: guessed.classification, comment: `guessed by its name: ${guessed.word}` }
  }
  const plain = said.trim().toLowerCase()
  if (plain === 'public') return {}
  if ((CLASSIFICATION_LEVELS as readonly string[]).includes(plain)) return { classification: plain }
  if (/^pii(\.[a-z][a-z0-9_]{0,62}){1,3}$/.test(plain)) return { classification: plain }
  part.say('classification', `"${said.slice(0, 100)}" is pii.other here, which is masked`)
  return { classification: 'pii.other', comment: `the contract says "${said}"` }
}
