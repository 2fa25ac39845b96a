/** Where the rows are. Replace this by your store: tables, collections, files. */
import { type Row, type RowPolicy, type TableSchema, type Target, tenantOf } from '@sluice/sdk'
import type { Config } from './index.ts'

/** What one epoch of a dataset holds. Never changed once made, so that a reader keeps what it began with. */
export interface Content {
  readonly epoch: number
  readonly fence: bigint
  readonly committedAt: string
  /** By the primary key's values. */
  readonly rows: ReadonlyMap<string, Row>
}

export interface Dataset {
  readonly tenant: string
  readonly schema: TableSchema
  readonly config: Config
  readonly policy: RowPolicy | null
  /** The highest token seen, also of writes that came to nothing. */
  readonly fence: bigint | null
  readonly content: Content | null
}

/** What a server would be: it outlives the stores that are opened on it. */
export class Space {
  readonly #datasets = new Map<string, Dataset>()

  get(target: Target<Config>): Dataset | undefined {
    return this.#datasets.get(addressOf(target))
  }

  put(target: Target<Config>, dataset: Dataset): void {
    this.#datasets.set(addressOf(target), dataset)
  }

  remove(target: Target<Config>): void {
    this.#datasets.delete(addressOf(target))
  }

  removeTenant(tenant: string): void {
    for (const [address, dataset] of this.#datasets) if (dataset.tenant === tenant) this.#datasets.delete(address)
  }
}

/** The tenant comes first in every address, so no target can name another's rows. JSON keeps the parts apart. */
function addressOf({ scope, domain, product, variant }: Target<Config>): string {
  return JSON.stringify([tenantOf(scope), domain, product, variant])
}

const spaces = new Map<string, Space>()

export function spaceNamed(name: string): Space {
  const space = spaces.get(name) ?? new Space()
  spaces.set(name, space)
  return space
}
