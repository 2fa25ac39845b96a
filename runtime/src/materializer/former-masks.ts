/**
 * Epochs of releases before, which did not note by which masks they were made. Their version does not say it: it names classes, and
 * the configuration of then said how these are masked, which may not be today's. Their files do.
 */
import type { Lake, Scan, TableState } from '@sluice/iceberg'
import { isSluiceError, type Logger, type Variant } from '@sluice/sdk'
import type pg from 'pg'
import type { MaskStrategy } from '../config.ts'
import type { ManifestSet } from '../manifest/manifest-set.ts'
import { type ClassifiedColumn, carriesMasks, type MaskingRules, strategyFor } from '../policy/masking.ts'
import {
  type EpochWithoutMasks,
  epochsWithoutMasks,
  type FoundMasks,
  noteMasks,
  noteUnmasked,
  productsWithoutMasks,
} from '../registry/former-masks.ts'
import type { EpochMasks } from '../registry/materializations.ts'
import { findVersion, type ProductVersion } from '../registry/versions.ts'
import { newestSummary, RECIPE } from './changed-rows.ts'
import { shownMask } from './shown-masks.ts'
import { lakeTable, QUARANTINE } from './variants.ts'

export interface FormerMasksDeps {
  readonly pool: pg.Pool
  readonly lake: Lake
  readonly rules: MaskingRules
  readonly logger: Logger
}

const AT_ONCE = 8

/**
 * Notes the masks of all of them, by what their rows show. A column of which that cannot be told stays without: its rows count as
 * showing more than any mask. Once per start, before rows are shown or sent. Repeatable; what the lake cannot tell now is left to
 * the next time.
 */
export async function noteFormerMasks(deps: FormerMasksDeps): Promise<void> {
  await noteUnmasked(deps.pool)
  const products = await productsWithoutMasks(deps.pool)
  for (let at = 0; at < products.length; at += AT_ONCE) {
    const noted = await Promise.all(products.slice(at, at + AT_ONCE).map((id) => noteMasksOf(deps, id)))
    if (noted.includes('unavailable')) return
  }
}

/** The same of one product. `unavailable`: the lake does not answer, and would not for another one. */
export async function noteMasksOf(
  { pool, lake, rules, logger }: FormerMasksDeps,
  productId: string,
): Promise<'noted' | 'unreadable' | 'unavailable'> {
  const shown = new ShownMasks(lake, rules)
  const versions = new Map<string, ProductVersion<ManifestSet> | null>()
  const found: FoundMasks[] = []
  const failures: unknown[] = []
  for (const epoch of await epochsWithoutMasks(pool, productId)) {
    const version = versions.get(epoch.version) ?? (await findVersion<ManifestSet>(pool, productId, epoch.version))
    versions.set(epoch.version, version)
    try {
      found.push({ id: epoch.id, masks: await shown.inAll(epoch, version?.normalised.output.columns ?? []) })
    } catch (error) {
      // Told below. The rows stay hidden from who is not cleared; a table that is broken keeps no runtime from starting.
      failures.push(error)
      if (isSluiceError(error, 'TRANSIENT')) break
    }
  }
  await noteMasks(pool, found)
  const [failure] = failures
  if (failure === undefined) return 'noted'
  const error = failure instanceof Error ? failure.message : String(failure)
  logger.warn('the masks of epochs that do not say them could not be looked up', { product: productId, error })
  return isSluiceError(failures.at(-1), 'TRANSIENT') ? 'unavailable' : 'unreadable'
}

type Masks = Readonly<Record<string, MaskStrategy>>

/** Of one product: rows that were made by one recipe are looked at once. */
class ShownMasks {
  readonly #lake: Lake
  readonly #rules: MaskingRules
  /** By name. */
  readonly #tables = new Map<string, Promise<TableState | null>>()
  readonly #known = new Map<string, Masks>()

  constructor(lake: Lake, rules: MaskingRules) {
    this.#lake = lake
    this.#rules = rules
  }

  /** By variant. */
  async inAll(epoch: EpochWithoutMasks, columns: readonly ClassifiedColumn[]): Promise<EpochMasks> {
    const masks: Record<Variant, Masks> = {}
    for (const [variant, names] of Object.entries(epoch.maskedColumns)) {
      const masked = columns.filter(({ name }) => names.includes(name))
      masks[variant] = await this.#inOne(epoch, variant, masked)
    }
    return masks
  }

  /** By column; of those that are missing it cannot be told. */
  async #inOne(epoch: EpochWithoutMasks, variant: Variant, masked: readonly ClassifiedColumn[]): Promise<Masks> {
    const byType = masked.filter(({ type }) => !carriesMasks(type)).map(({ name }) => [name, 'null'] as const)
    const snapshotId = epoch.snapshots[variant]
    const table = byType.length === masked.length || snapshotId === undefined ? null : await this.#table(epoch, variant)
    const snapshot = table && this.#lake.snapshots(table).find((one) => one.snapshotId === snapshotId)
    if (!table || !snapshot) return Object.fromEntries(byType)
    const key = JSON.stringify([epoch.version, variant, snapshot.summary[RECIPE] ?? snapshot.snapshotId])
    const alike = this.#known.get(key)
    if (alike !== undefined) return alike
    const scan = await this.#lake.scan(table, { snapshotId: snapshot.snapshotId })
    const own = this.#shownIn(scan, masked)
    // Other rows of the recipe may have values, or tell what those of this epoch do not.
    if (masked.every((column) => isToldByRows(column, own[column.name]))) {
      this.#known.set(key, own)
      return own
    }
    // Whatever the registry counted: an epoch that it has from the lake's own note has no counts.
    const aside = await this.#aside(epoch, variant)
    const isEmpty = aside === null && scan.files.every(({ rows }) => rows === 0)
    // No row was put aside either: there is nothing to show.
    if (isEmpty && !epoch.counts['quarantined']) return this.#asToday(masked)
    const doubtful = masked.filter((column) => !isToldByRows(column, own[column.name]))
    return aside === null ? own : { ...without(own, doubtful), ...this.#shownIn(aside, doubtful) }
  }

  /** Its rows that checks put aside, made by the same masks; null where there are none of it, or none any more. */
  async #aside(epoch: EpochWithoutMasks, variant: Variant): Promise<Scan | null> {
    const table = await this.#table({ ...epoch, name: `${epoch.name}${QUARANTINE}` }, variant)
    const isOfEpoch = table !== null && newestSummary(table, this.#lake)?.['sluice.epoch'] === String(epoch.epoch)
    const scan = isOfEpoch ? await this.#lake.scan(table, {}) : null
    return scan === null || scan.files.every(({ rows }) => rows === 0) ? null : scan
  }

  #table({ tenant, domain, name }: EpochWithoutMasks, variant: Variant): Promise<TableState | null> {
    const ref = lakeTable(tenant, domain, name, variant)
    const known = this.#tables.get(ref.table)
    if (known !== undefined) return known
    const loading = this.#lake.load(ref)
    this.#tables.set(ref.table, loading)
    return loading
  }

  #asToday(masked: readonly ClassifiedColumn[]): Masks {
    return Object.fromEntries(masked.map((column) => [column.name, strategyFor(column, this.#rules)]))
  }

  #shownIn(scan: Scan, masked: readonly ClassifiedColumn[]): Masks {
    const masks: Record<string, MaskStrategy> = {}
    for (const column of masked) {
      const mask = shownMask(column, strategyFor(column, this.#rules), scan)
      if (mask !== null) masks[column.name] = mask
    }
    return masks
  }
}

/** Whether all rows of the recipe are made by it, those that were put aside, too: what has no values here may have some there. */
function isToldByRows({ type }: ClassifiedColumn, mask: MaskStrategy | undefined): boolean {
  return mask !== undefined && (mask !== 'null' || !carriesMasks(type))
}

const without = (masks: Masks, columns: readonly ClassifiedColumn[]): Masks =>
  Object.fromEntries(Object.entries(masks).filter(([name]) => !columns.some((column) => column.name === name)))
