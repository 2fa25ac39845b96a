import { isLogicalType, type LogicalType, parseDecimal, typeName } from '@sluice/sdk'
import type { CheckedFile, Item } from './checked-file.ts'
import { Columns } from './columns.ts'
import type { ColumnFields, PartitionFields } from './files/output.ts'
import type { ClassificationLevel, OutputColumn, OutputManifest, PartitionField, WriteMode } from './manifest-set.ts'
import { isSensitive, isTimeType } from './manifest-set.ts'
import { columnRefusal } from './names.ts'
import type { Finding, Path } from './problem.ts'
import { readRetention } from './retention.ts'

export interface OutputDraft {
  readonly value: OutputManifest
  readonly columns: Columns
  readonly findings: readonly Finding[]
  /** Whether the column is masked for readers who are not cleared. */
  isSensitive(column: OutputColumn): boolean
}

/** What the product's own file and the configuration say of classes; null where product.yaml could not be read. */
export interface Classes {
  readonly product: ClassificationLevel | null
  readonly sensitive: readonly string[]
}

/** output.yaml with its defaults. */
export function readOutput(file: CheckedFile, classes: Classes): OutputDraft {
  const items = file.items<ColumnFields>('schema')
  const columns = items.filter((item) => isLogicalType(item.value.type)).map((item) => outputColumn(item.value))
  const index = new Columns(columns, namesIn(file))
  const primaryKey = columns.filter((column) => column.role === 'identity').map((column) => column.name)
  const declared = file.get<WriteMode>('write_mode')
  const writeMode = declared ?? (primaryKey.length > 0 ? 'merge' : 'replace')
  const keepMissing = file.get<boolean>('keep_missing')
  const partitions = file.items<PartitionFields>('partitioning')
  const allowed = file.items<string>('allow_lossy')
  const retention = readRetention(file)
  const allowLossy = [...new Set(allowed.map((item) => item.value))].sort()
  return {
    columns: index,
    isSensitive: (column) => isSensitive(column.classification, classes.sensitive),
    value: {
      format: 'iceberg',
      columns,
      primaryKey,
      partitioning: partitions.map((item) => partitionField(item.value)),
      writeMode,
      ...(writeMode === 'merge' ? { keepMissing: keepMissing ?? false } : {}),
      ...(allowLossy.length > 0 ? { allowLossy } : {}),
      ...(retention.value === undefined ? {} : { retention: retention.value }),
    },
    findings: [
      ...items.flatMap(columnFindings),
      ...items.flatMap((item) => classFindings(item, classes)),
      ...duplicateColumns(items),
      ...partitionFindings(partitions, index),
      ...allowed.flatMap(({ path, value }) => index.missing('output', path, value)),
      ...retention.findings,
      ...(declared === 'merge' && primaryKey.length === 0 && index.complete ? [mergeWithoutIdentity()] : []),
      ...(keepMissing === undefined || writeMode === 'merge' || !index.complete ? [] : [keepsWithoutMerge(writeMode)]),
    ],
  }
}

/** An unreadable list gives null; an entry without a readable name is passed over. */
function namesIn(file: CheckedFile): ReadonlySet<string> | null {
  const schema = file.raw('schema')
  if (!Array.isArray(schema)) return null
  const names = schema.map((_, index) => file.raw('schema', index, 'name'))
  return new Set(names.filter((name) => typeof name === 'string'))
}

function outputColumn(fields: ColumnFields): OutputColumn {
  const role = fields.role ?? 'attribute'
  return {
    name: fields.name,
    type: fields.type.replaceAll(/\s/g, '') as LogicalType,
    nullable: fields.nullable ?? role !== 'identity',
    role,
    classification: fields.classification ?? 'public',
    description: fields.description ?? '',
  }
}

const NO_KEY_TYPES: ReadonlySet<string> = new Set(['float', 'double', 'json'])

function columnFindings({ path, value }: Item<ColumnFields>): readonly Finding[] {
  const findings: Finding[] = []
  const say = (field: string, message: string, hint?: string): void => {
    findings.push({ manifest: 'output', path: [...path, field], message, ...(hint === undefined ? {} : { hint }) })
  }
  const refusal = columnRefusal(value.name)
  if (refusal !== null) say('name', `"${value.name}" ${refusal}`, 'Give the column another name.')
  if (value.type.startsWith('decimal') && parseDecimal(value.type) === null) {
    say('type', `${value.type} is no decimal type`, 'Precision is 1 to 38, scale 0 to the precision: decimal(18,2).')
  }
  if (value.role === 'identity' && value.nullable === true) {
    say('nullable', 'an identity column cannot be nullable', 'Remove nullable, or give the column another role.')
  }
  if (value.role === 'identity' && NO_KEY_TYPES.has(value.type)) {
    say('type', `values of type ${value.type} cannot identify a row`, 'Use an exact type such as string or long.')
  }
  if (value.role === 'time' && !isTimeType(value.type)) {
    say('type', `a column of role time cannot be of type ${value.type}`, 'Use date, timestamp or timestamptz.')
  }
  return findings
}

const LEVELS = ['public', 'internal', 'confidential', 'restricted']

/** A class that nothing enforces would be a promise to nobody. A level is enforced where the product has it too. */
function classFindings({ path, value }: Item<ColumnFields>, classes: Classes): readonly Finding[] {
  const { classification = 'public' } = value
  if (classification === 'public' || isSensitive(classification, classes.sensitive)) return []
  const at = { manifest: 'output', path: [...path, 'classification'] } as const
  const level = LEVELS.indexOf(classification)
  if (level < 0) {
    const message = `no masking is configured for the class ${classification}`
    const hint = `Use a class such as pii.identifier${classes.sensitive.length === 0 ? '' : ` or ${classes.sensitive.join(', ')}`}.`
    return [{ ...at, message, hint }]
  }
  if (classes.product === null || level <= LEVELS.indexOf(classes.product)) return []
  const message = `the column is ${classification}, but product.yaml lets readers of ${classes.product} products see it`
  return [
    { ...at, message, hint: `Classify the product ${classification}, or the column with a class that is masked.` },
  ]
}

/** Engines fold the case of names, so two columns must differ in more. */
function duplicateColumns(items: readonly Item<ColumnFields>[]): readonly Finding[] {
  const first = new Map<string, string>()
  return items.flatMap(({ path, value }): readonly Finding[] => {
    const folded = value.name.toLowerCase()
    const earlier = first.get(folded)
    if (earlier === undefined) {
      first.set(folded, value.name)
      return []
    }
    const message =
      earlier === value.name
        ? `the column "${value.name}" stands here twice`
        : `"${value.name}" and "${earlier}" differ in case only`
    return [{ manifest: 'output', path: [...path, 'name'], message }]
  })
}

/** The text has met its pattern; `bucket(16)` is the same as `bucket[16]`. */
function partitionField(fields: PartitionFields): PartitionField {
  return { column: fields.column, transform: (fields.transform ?? 'identity').replace('(', '[').replace(')', ']') }
}

const DATES = ['date', 'timestamp', 'timestamptz']

/** Which types each transform takes (Iceberg specification, "Partition Transforms"). */
const TRANSFORM_TYPES: Readonly<Record<string, ReadonlySet<string>>> = {
  identity: new Set(['string', 'boolean', 'integer', 'long', 'decimal', 'uuid', ...DATES]),
  year: new Set(DATES),
  month: new Set(DATES),
  day: new Set(DATES),
  hour: new Set(['timestamp', 'timestamptz']),
  bucket: new Set(['string', 'integer', 'long', 'decimal', 'uuid', 'binary', ...DATES]),
  truncate: new Set(['string', 'integer', 'long', 'decimal']),
}

function partitionFindings(items: readonly Item<PartitionFields>[], columns: Columns): readonly Finding[] {
  const seen = new Set<string>()
  return items.flatMap(({ path, value }): readonly Finding[] => {
    const { column, transform } = partitionField(value)
    const absent = columns.missing('output', [...path, 'column'], column)
    if (absent.length > 0) return absent
    if (seen.has(column)) {
      return [{ manifest: 'output', path: [...path, 'column'], message: `"${column}" already partitions the table` }]
    }
    seen.add(column)
    const type = columns.get(column)?.type
    return type === undefined ? [] : transformFinding([...path, 'transform'], transform, type)
  })
}

function transformFinding(path: Path, transform: string, type: LogicalType): readonly Finding[] {
  const kind = transform.replace(/\[.*/, '')
  if (TRANSFORM_TYPES[kind]?.has(typeName(type))) return []
  const fitting = Object.entries(TRANSFORM_TYPES).flatMap(([name, types]) => (types.has(typeName(type)) ? [name] : []))
  const hint = fitting.length === 0 ? 'Partition by another column.' : `Possible for it: ${fitting.join(', ')}.`
  return [{ manifest: 'output', path, message: `${kind} cannot partition by a column of type ${type}`, hint }]
}

function mergeWithoutIdentity(): Finding {
  return {
    manifest: 'output',
    path: ['write_mode'],
    message: 'merge needs identity columns: without them no row can be told from another',
    hint: 'Give the key columns the role identity, or use replace.',
  }
}

function keepsWithoutMerge(writeMode: WriteMode): Finding {
  const does = writeMode === 'append' ? 'keeps every row that it ever had' : 'keeps no row but those of the output'
  return {
    manifest: 'output',
    path: ['keep_missing'],
    message: `is a choice of merge: ${writeMode} ${does}`,
    hint: 'Remove it, or use write_mode: merge.',
  }
}
