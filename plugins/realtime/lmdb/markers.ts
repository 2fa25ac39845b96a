/** The marker of a dataset: which write is served, who writes, what the values hold. */
import { type AppliedEpoch, type KeyTemplate, type RowPolicy, type TableSchema, ttlMs } from '@sluice/sdk'
import type { Database } from 'lmdb'
import type { Layout } from '../keyed-values/cells.ts'
import { DEFAULT_TTL, type RealtimeConfig, templateOf } from '../keyed-values/endpoint.ts'
import { isKeyedByIdentity } from '../keyed-values/identity.ts'
import { layoutOf } from '../keyed-values/shape.ts'
import type { Visibility } from './versions.ts'

export interface Marker extends Visibility {
  readonly tenant: string
  readonly schema: TableSchema
  readonly config: RealtimeConfig
  readonly policy: RowPolicy | null
  readonly applied: AppliedEpoch | null
  /** The highest token seen, also by writes that came to nothing. */
  readonly fence: bigint
  /** The write that is being made, or was when the process ended. */
  readonly pending: number | null
  readonly nextWrite: number
  readonly layouts: readonly Layout[]
  /** The values have expired and were removed; the next write has to bring them all. */
  readonly isExpired: boolean
  /** There may be values that count no more. */
  readonly hasGarbage: boolean
  /** Being dropped: once its values are gone the marker goes. */
  readonly isDropped: boolean
}

export function emptyMarker(tenant: string, schema: TableSchema, config: RealtimeConfig): Marker {
  return {
    tenant,
    schema,
    config,
    policy: null,
    applied: null,
    fence: 0n,
    pending: null,
    nextWrite: 1,
    committed: 0,
    floor: 1,
    aborted: [],
    layouts: [layoutOf(schema, config)],
    isExpired: false,
    hasGarbage: false,
    isDropped: false,
  }
}

/** What reads need of a marker and would otherwise work out each time. */
export interface Facts {
  readonly template: KeyTemplate
  /** Whether a key names exactly one row. */
  readonly isKeyedByIdentity: boolean
  /** The instant at which every value ends; null before the first commit. */
  readonly endsAtMs: number | null
}

const known = new WeakMap<Marker, Facts>()

/** Worked out once for each marker, which never changes. */
export function factsOf(marker: Marker): Facts {
  let facts = known.get(marker)
  if (facts === undefined) {
    facts = workedOut(marker)
    known.set(marker, facts)
  }
  return facts
}

function workedOut({ config, schema, applied }: Marker): Facts {
  const template = templateOf(config)
  const endsAtMs = applied && Date.parse(applied.committedAt) + ttlMs(config.ttl ?? DEFAULT_TTL)
  return { template, isKeyedByIdentity: isKeyedByIdentity(template, schema), endsAtMs }
}

/**
 * All markers, in memory and on disk. There is one for each target, they are small, and one process owns them, so a
 * read finds its marker without asking LMDB.
 */
export class Markers {
  readonly #stored: Database<unknown, string>
  readonly #known = new Map<string, Marker>()
  #turn: Promise<void> = Promise.resolve()

  constructor(stored: Database<unknown, string>) {
    this.#stored = stored
    for (const { key, value } of stored.getRange()) this.#known.set(key, revived(value))
  }

  get(prefix: string): Marker | undefined {
    const marker = this.#known.get(prefix)
    return marker?.isDropped ? undefined : marker
  }

  /** Those being dropped included. */
  all(): readonly (readonly [string, Marker])[] {
    return [...this.#known]
  }

  /**
   * Resolves when the changed marker is on disk; only then is it what reads go by. Changes come one after the other,
   * each to what the former left; one to a marker that is gone does nothing.
   */
  update(prefix: string, change: (marker: Marker) => Marker): Promise<void> {
    return this.#inTurn(async () => {
      const marker = this.#known.get(prefix)
      if (marker) await this.#put(prefix, change(marker))
    })
  }

  create(prefix: string, marker: Marker): Promise<void> {
    return this.#inTurn(() => this.#put(prefix, marker))
  }

  remove(prefix: string): Promise<void> {
    return this.#inTurn(async () => {
      await this.#stored.remove(prefix)
      await this.#stored.flushed
      this.#known.delete(prefix)
    })
  }

  async #put(prefix: string, marker: Marker): Promise<void> {
    await this.#stored.put(prefix, { ...marker, fence: String(marker.fence), applied: plainApplied(marker) })
    await this.#stored.flushed
    this.#known.set(prefix, marker)
  }

  #inTurn(run: () => Promise<void>): Promise<void> {
    const turn = this.#turn.then(run)
    this.#turn = turn.catch(() => undefined)
    return turn
  }
}

function plainApplied({ applied }: Marker): unknown {
  return applied && { ...applied, fence: String(applied.fence) }
}

function revived(value: unknown): Marker {
  const plain = value as Marker & { readonly fence: string; readonly applied: { readonly fence: string } | null }
  const applied = plain.applied && { ...plain.applied, fence: BigInt(plain.applied.fence) }
  return { ...plain, fence: BigInt(plain.fence), applied: applied as AppliedEpoch | null }
}
