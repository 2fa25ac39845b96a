import type { AppliedEpoch, Row, RowPolicy, TableSchema, TenantScope, Value, Variant } from '@sluice/sdk'
import { tenantOf } from '@sluice/sdk'
import type { ReferenceConfig } from './config.ts'

/** One state of one row. In a dataset without history there is one for each row. */
export interface RowVersion {
  /** The primary key's values as text; rows without identity get a number of their own. */
  readonly key: string
  readonly row: Row
  readonly validFrom: string
  /** Null while it holds. */
  readonly validTo: string | null
  /** type_3: the value before the last change, by tracked column. */
  readonly previous: Readonly<Record<string, Value>>
}

/** Everything that one epoch of a dataset holds. Never changed once made, so a reader keeps what it began with. */
export interface Content {
  readonly applied: AppliedEpoch
  readonly versions: readonly RowVersion[]
}

export interface StoredDataset {
  readonly tenant: string
  schema: TableSchema
  config: ReferenceConfig
  policy: RowPolicy | null
  /** The highest token seen, also by writes that came to nothing. */
  fence: bigint
  /** Newest last; the last few are kept so that one of them can be activated again. */
  contents: readonly Content[]
  /** The epoch that reads are answered from. */
  servedEpoch: number | null
}

/**
 * What outlives an opened store, as a server's disk would: two stores opened on one memory are two clients of one
 * server, and a crash of a client loses what it had not put here.
 */
export class ReferenceMemory {
  /** False: no store can be opened on it, as with a server that is down. */
  isReachable = true
  readonly #datasets = new Map<string, StoredDataset>()

  /** How many datasets there are, of whomever. */
  get size(): number {
    return this.#datasets.size
  }

  get(dataset: DatasetAddress): StoredDataset | undefined {
    return this.#datasets.get(address(dataset))
  }

  set(dataset: DatasetAddress, stored: StoredDataset): void {
    this.#datasets.set(address(dataset), stored)
  }

  delete(dataset: DatasetAddress): void {
    this.#datasets.delete(address(dataset))
  }

  deleteTenant(tenant: string): void {
    for (const [key, stored] of this.#datasets) if (stored.tenant === tenant) this.#datasets.delete(key)
  }

  all(): readonly StoredDataset[] {
    return [...this.#datasets.values()]
  }
}

interface DatasetAddress {
  readonly scope: TenantScope
  readonly domain: string
  readonly product: string
  readonly variant: Variant
}

/** A JSON array, so that no part can run into the next. */
function address(dataset: DatasetAddress): string {
  return JSON.stringify([tenantOf(dataset.scope), dataset.domain, dataset.product, dataset.variant])
}
