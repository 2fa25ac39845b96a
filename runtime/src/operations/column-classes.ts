/** The classes of output columns: inherited from what they are made of, and lowered by few. */
import { SluiceError } from '@sluice/sdk'
import type { TenantCall } from '../flow.ts'
import type { ManifestSet } from '../manifest/manifest-set.ts'
import { isSensitive } from '../policy/masking.ts'
import type { Connection } from '../registry/connections.ts'
import type { Product } from '../registry/products.ts'
import { rawClasses } from '../registry/raw-classes.ts'
import type { Platform } from './platform.ts'

export interface ColumnOrigin {
  readonly column: string
  /** Raw columns, as `rawColumn` names them. */
  readonly sources: readonly string[]
  /** Nothing says what the column is made of, so that it may be any of the sources. */
  readonly guessed?: boolean
}

/**
 * An output column inherits the strictest class that any product of the tenant gives to the raw columns it is made
 * of, so that nobody shows as public in one product, or under another name, what is hidden.
 */
export async function laundered(
  platform: Platform,
  product: Product,
  manifests: ManifestSet,
  origins: readonly ColumnOrigin[] | null,
): Promise<readonly string[]> {
  const classes = await rawClasses(platform.pool, product.tenant)
  return (origins ?? []).flatMap(({ column, sources }) => {
    const declared = manifests.output.columns.find((candidate) => candidate.name === column)?.classification ?? 'public'
    const inherited = sources.some((source) => classes.get(source)?.some((one) => isSensitive(one, platform.rules)))
    return inherited && !isSensitive(declared, platform.rules) ? [column] : []
  })
}

/** Columns that lose a masked class: to none, or to another one, for which other readers are cleared. */
export function loweredClasses(platform: Platform, live: ManifestSet | null, next: ManifestSet): readonly string[] {
  return (live?.output.columns ?? [])
    .filter((column) => isSensitive(column.classification, platform.rules))
    .filter((column) => {
      const now = next.output.columns.find((candidate) => candidate.name === column.name)
      return now !== undefined && now.classification !== column.classification
    })
    .map((column) => column.name)
}

/** A class may be lowered by the owner of all the product's sources, those of the live version too, or an administrator. */
export function checkClasses(
  call: Pick<TenantCall, 'principal'>,
  product: Pick<Product, 'createdBy'>,
  columns: readonly string[],
  connections: ReadonlyMap<string, Connection>,
): readonly string[] {
  const lowered = [...new Set(columns)]
  if (lowered.length === 0) return lowered
  const { principal } = call
  const isOwn = (actor: { readonly issuer: string; readonly subject: string }) =>
    actor.issuer === principal.issuer && actor.subject === principal.subject
  const owners = [...connections.values()].map((one) => one.createdBy)
  // Plain tables have no owner: a product that is made of nothing else is its creator's.
  if (principal.isAdmin || (owners.length > 0 ? owners : [product.createdBy]).every(isOwn)) return lowered
  throw new SluiceError(
    'PERMISSION',
    'only the owner of the source or an administrator may lower the class of a column',
    {
      code: 'class_lowering_refused',
      remedy: 'Keep the class, or ask the creator of the connection.',
      details: { columns: lowered },
    },
  )
}

/**
 * By raw column, the classes that this version gives to what is made of it; where that is guessed, to the columns of
 * the same name.
 */
export function classesOf(manifests: ManifestSet, origins: readonly ColumnOrigin[]): ReadonlyMap<string, string> {
  const classes = new Map<string, string>()
  for (const { column, sources, guessed = false } of origins) {
    const declared = manifests.output.columns.find((candidate) => candidate.name === column)
    if (!declared || declared.classification === 'public') continue
    for (const source of sources) {
      if (!guessed || sourceName(source) === column.toLowerCase()) classes.set(source, declared.classification)
    }
  }
  return classes
}

function sourceName(source: string): string {
  return String((JSON.parse(source) as readonly unknown[]).at(-1))
}
