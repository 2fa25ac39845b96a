/** The variants a materialization writes: the clear rows, and a twin for every clearance that somebody has. */
import type { Lake, PartitionColumn, TableRef, WriteTarget } from '@sluice/iceberg'
import { type TableSchema, type Variant, variantTable } from '@sluice/sdk'
import { keepsHistory } from '../manifest/contract-config.ts'
import type { OutputManifest } from '../manifest/manifest-set.ts'
import type { ClearClasses, ProductGrant } from '../policy/classification.ts'
import { type ColumnMask, keepsIdentity, type MaskingRules, masksFor, variantName } from '../policy/masking.ts'
import { twinColumns } from './mask-sql.ts'

export interface VariantPlan {
  readonly variant: Variant
  readonly masks: readonly ColumnMask[]
  readonly schema: TableSchema
}

/** A product's variants, clear first. Without sensitive columns there is only that one. */
export function planVariants(
  output: OutputManifest,
  grants: readonly ProductGrant[],
  rules: MaskingRules,
): readonly VariantPlan[] {
  const clearances: ReadonlySet<string>[] = [new Set()]
  for (const classes of clearancesOf(grants)) clearances.push(classes)
  const plans = new Map<Variant, VariantPlan>()
  for (const classes of ['all', ...clearances] as const) {
    const plan = variantFor(output, classes, rules)
    plans.set(plan.variant, plan)
  }
  return [...plans.values()]
}

/** The variant for who is shown just these classes in clear. */
export function variantFor(output: OutputManifest, clear: ClearClasses, rules: MaskingRules): VariantPlan {
  const masks = masksFor(output.columns, clear, rules)
  return { variant: variantName(masks, output.columns, rules), masks, schema: schemaFor(output, masks) }
}

/** The sets of classes that some subject is cleared for by its own grants, or by those of its kind together. */
function clearancesOf(grants: readonly ProductGrant[]): readonly ReadonlySet<string>[] {
  const bySubject = new Map<string, Set<string>>()
  for (const grant of grants) {
    if (grant.may !== 'unmask' || grant.classes.includes('*')) continue
    const subject = JSON.stringify([grant.subjectType, grant.issuer, grant.subject])
    const classes = bySubject.get(subject) ?? new Set<string>()
    for (const name of grant.classes) classes.add(name)
    bySubject.set(subject, classes)
  }
  return [...bySubject.values()].slice(0, MAX_PARTIAL_TWINS)
}

/** Beyond these, readers with a partial clearance get the full mask. */
const MAX_PARTIAL_TWINS = 8

/** A twin whose identity is hidden beyond recognition has no key: its stores are given whole contents only. */
function schemaFor(output: OutputManifest, masks: readonly ColumnMask[]): TableSchema {
  const columns = twinColumns(output.columns, masks).map(({ name, type, nullable }) => ({ name, type, nullable }))
  const lost = masks.filter((mask) => !keepsIdentity(mask)).map((mask) => mask.column)
  const primaryKey = output.primaryKey.some((name) => lost.includes(name)) ? [] : output.primaryKey
  return { columns, primaryKey }
}

/**
 * How a variant's files lie. A twin is not partitioned by what it hides, and its rows lie in an order of what it shows,
 * by its key or by all of it, so that neither tells anything of what is hidden.
 */
export function layoutOf(
  { masks, schema }: VariantPlan,
  output: OutputManifest,
): Pick<WriteTarget, 'comments'> & {
  readonly partitioning: readonly PartitionColumn[]
  readonly sortBy: readonly string[]
} {
  const hidden = new Set(masks.map((mask) => mask.column))
  const all = masks.length === 0 ? [] : schema.columns.map((column) => column.name)
  return {
    partitioning: output.partitioning
      .filter((field) => !hidden.has(field.column))
      .map(({ column, transform }) => ({ column, transform })),
    sortBy: schema.primaryKey.length > 0 ? schema.primaryKey : all,
    comments: commentsOf(output.columns, masks),
  }
}

/** What engines that read the files are told of columns: the class that each has in this version, and how the variant masks it. */
function commentsOf(
  columns: OutputManifest['columns'],
  masks: VariantPlan['masks'],
): NonNullable<WriteTarget['comments']> {
  const ways = new Map(masks.map(({ column, strategy }) => [column, `; masked: ${strategy}`]))
  return new Map(columns.map(({ name, classification }) => [name, `class ${classification}${ways.get(name) ?? ''}`]))
}

/** The lake table of a variant, in the product's domain. */
export function lakeTable(tenant: string, domain: string, product: string, variant: Variant) {
  return { warehouse: tenant, namespace: domain, table: variantTable(product, variant) }
}

/** Behind a product's name: the table of the rows that its checks put aside. */
export const QUARANTINE = '__quarantine'

/**
 * The other way round: `orders` is the clear table, `orders__masked` a twin. Quarantine tables are the product's, too;
 * names of products have no `__`.
 */
export function productOfTable(table: string): { readonly product: string; readonly variant: Variant } {
  const at = table.indexOf('__')
  return at < 0 ? { product: table, variant: 'clear' } : { product: table.slice(0, at), variant: table.slice(at + 2) }
}

/** All that the lake has for the product: in clear, twins, and of both the rows that checks put aside; also what no epoch fills any more. */
export async function tablesOfProduct(
  { tenant, domain, name }: { readonly tenant: string; readonly domain: string; readonly name: string },
  lake: Pick<Lake, 'tables'>,
): Promise<readonly TableRef[]> {
  const all = await lake.tables(tenant, domain)
  return all.filter(({ table }) => productOfTable(table).product === name)
}

/** Whether an endpoint can be given the variant at all; where not, its readers are refused with `column_masked`. */
export function servesVariant(
  type: string,
  config: Readonly<Record<string, unknown>>,
  plan: VariantPlan,
  output: OutputManifest,
): boolean {
  if (plan.masks.length === 0) return true
  const masked = (name: string) => plan.masks.some((mask) => mask.column === name)
  if (type === 'realtime') {
    const placeholders = String(config['key_template'] ?? '').matchAll(/\{([^{}]+)\}/g)
    return ![...placeholders].some(([, name]) => masked(name as string))
  }
  if (type === 'timeseries') return !masked(timeColumnName(config, output))
  return !keepsHistory(type, config) || plan.schema.primaryKey.length > 0
}

function timeColumnName(config: Readonly<Record<string, unknown>>, output: OutputManifest): string {
  if (typeof config['time_column'] === 'string') return config['time_column']
  return output.columns.find((column) => ['date', 'timestamp', 'timestamptz'].includes(column.type))?.name ?? ''
}

/**
 * The endpoint's config for a variant: columns that the twin omits, or whose masked values mean nothing to it, are
 * left out of it.
 */
export function configFor(
  config: Readonly<Record<string, unknown>>,
  plan: VariantPlan,
): Readonly<Record<string, unknown>> {
  if (plan.masks.length === 0) return config
  const present = new Set(plan.schema.columns.map((column) => column.name))
  // Of a plugin's own config nothing else is known: other words in it are no columns.
  const omitted = new Set(plan.masks.map(({ column }) => column).filter((name) => !present.has(name)))
  const hidden = new Set(plan.masks.filter((mask) => mask.strategy !== 'hash').map((mask) => mask.column))
  const visible = Object.fromEntries(
    Object.entries(config).map(([key, value]) => {
      if (!Array.isArray(value)) return [key, value]
      if (key === 'continuous_aggregates') return [key, value.map((entry) => visibleAggregate(entry, hidden))]
      return [key, value.filter((name) => !omitted.has(name))]
    }),
  )
  return tracksNothing(config, visible) ? { ...visible, history_mode: 'current' } : visible
}

/** A history of columns that the twin has not is none: its store would refuse it, and its readers would stay with what was before. */
function tracksNothing(
  { tracked_columns: declared }: Readonly<Record<string, unknown>>,
  { tracked_columns: left }: Readonly<Record<string, unknown>>,
): boolean {
  return Array.isArray(declared) && declared.length > 0 && Array.isArray(left) && left.length === 0
}

function visibleAggregate(entry: unknown, hidden: ReadonlySet<string>): unknown {
  const aggregate = entry as { readonly columns?: readonly string[] }
  return { ...aggregate, columns: (aggregate.columns ?? []).filter((name) => !hidden.has(name)) }
}
