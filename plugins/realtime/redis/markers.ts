/** The marker of a dataset: which write is served, who writes, what the values hold. */
import { type KeyTemplate, type RowPolicy, SluiceError, type TableSchema, ttlMs } from '@sluice/sdk'
import type { Standing } from '../keyed-values/admission.ts'
import type { Layout } from '../keyed-values/cells.ts'
import { DEFAULT_TTL, type RealtimeConfig, templateOf } from '../keyed-values/endpoint.ts'
import { isKeyedByIdentity } from '../keyed-values/identity.ts'
import { layoutOf } from '../keyed-values/shape.ts'
import { type Connections, runScript } from './connections.ts'
import { DATASETS_KEY, markerKey } from './keys.ts'
import type { Visibility } from './records.ts'
import { SWAP } from './scripts.ts'

export interface Marker extends Visibility, Standing {
  readonly schema: TableSchema
  readonly config: RealtimeConfig
  readonly policy: RowPolicy | null
  /** The write that is being made, or was when its process ended. */
  readonly pending: number | null
  readonly nextWrite: number
  readonly layouts: readonly Layout[]
  /** Until then the server itself keeps every value, by the host's clock. */
  readonly keptUntilMs: number
  /** There may be values that count no more. */
  readonly hasGarbage: boolean
  readonly sweptAtMs: number
  /** Being dropped: once its values are gone the marker goes. */
  readonly isDropped: boolean
}

/** `firstWrite` is above every number that an earlier dataset of the name has given. */
export function emptyMarker(schema: TableSchema, config: RealtimeConfig, firstWrite: number): Marker {
  return {
    schema,
    config,
    policy: null,
    applied: null,
    fence: 0n,
    pending: null,
    nextWrite: firstWrite,
    committed: firstWrite - 1,
    floor: firstWrite,
    aborted: [],
    layouts: [layoutOf(schema, config)],
    keptUntilMs: 0,
    isExpired: false,
    hasGarbage: false,
    sweptAtMs: 0,
    isDropped: false,
  }
}

/** As if nothing had been written, but for the token: no former value counts, and the same epoch may come again. */
export function forgotten(marker: Marker): Marker {
  return {
    ...marker,
    applied: null,
    floor: marker.nextWrite,
    aborted: [],
    pending: null,
    isExpired: false,
    hasGarbage: true,
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
    const { config, schema, applied, keptUntilMs } = marker
    const template = templateOf(config)
    // A ttl that was lengthened since counts from the next epoch on: the server keeps the values no longer.
    const endsAtMs = applied && Math.min(endOf(applied.committedAt, config), keptUntilMs)
    facts = { template, isKeyedByIdentity: isKeyedByIdentity(template, schema), endsAtMs }
    known.set(marker, facts)
  }
  return facts
}

export function ttlOf(config: RealtimeConfig): number {
  return ttlMs(config.ttl ?? DEFAULT_TTL)
}

export function endOf(committedAt: string, config: RealtimeConfig): number {
  return Date.parse(committedAt) + ttlOf(config)
}

const MAX_PARSED = 10_000
const MAX_SWAPS = 50

/** All markers, on the server. What was parsed once is known again by its bytes. */
export class Markers {
  readonly #connections: Connections
  readonly #parsed = new Map<string, { readonly bytes: Buffer; readonly marker: Marker }>()

  constructor(connections: Connections) {
    this.#connections = connections
  }

  /** Undefined for one that is being dropped. */
  async get(prefix: string): Promise<Marker | undefined> {
    const marker = await this.stored(prefix)
    return marker?.isDropped ? undefined : marker
  }

  /** One that is being dropped too. */
  async stored(prefix: string): Promise<Marker | undefined> {
    const bytes = await this.#connections.writes.getBuffer(markerKey(prefix))
    return bytes ? this.parse(prefix, bytes) : undefined
  }

  parse(prefix: string, bytes: Buffer): Marker {
    const before = this.#parsed.get(prefix)
    if (before?.bytes.equals(bytes)) return before.marker
    const marker = revived(bytes)
    if (this.#parsed.size >= MAX_PARSED) this.#parsed.clear()
    this.#parsed.set(prefix, { bytes, marker })
    return marker
  }

  /**
   * Puts the changed marker in the place of the one that `change` was given, which is called again where another process
   * was faster. Undefined stands for no marker, in both directions. What `change` throws passes on.
   */
  async update(prefix: string, change: (marker: Marker | undefined) => Marker | undefined): Promise<void> {
    const { writes } = this.#connections
    for (let attempt = 0; attempt < MAX_SWAPS; attempt += 1) {
      const bytes = await writes.getBuffer(markerKey(prefix))
      const before = bytes ? this.parse(prefix, bytes) : undefined
      const after = change(before)
      if (after === before) return
      const texts = [bytes?.toString('utf8') ?? '', after === undefined ? '' : plain(after)]
      if ((await runScript(writes, SWAP, [markerKey(prefix)], texts)) === 1) return
    }
    throw new SluiceError('TRANSIENT', 'others change this dataset at the same time', {
      code: 'store_contention',
      remedy: 'Repeat the call.',
      retryAfterMs: 1000,
    })
  }

  /** The prefixes of all datasets; each may have been dropped meanwhile. */
  prefixes(): Promise<readonly string[]> {
    return this.#connections.writes.smembers(DATASETS_KEY)
  }

  async enlist(prefix: string): Promise<void> {
    await this.#connections.writes.sadd(DATASETS_KEY, prefix)
  }

  /** Called after the marker has gone; where it has come again meanwhile the prefix stays. */
  async delist(prefix: string): Promise<void> {
    await this.#connections.writes.srem(DATASETS_KEY, prefix)
    if (await this.stored(prefix)) await this.enlist(prefix)
  }
}

function plain(marker: Marker): string {
  return JSON.stringify(marker, (_, value: unknown) => (typeof value === 'bigint' ? String(value) : value))
}

function revived(bytes: Buffer): Marker {
  const stored = JSON.parse(bytes.toString('utf8')) as Omit<Marker, 'applied' | 'fence'> & {
    readonly fence: string
    readonly applied: { readonly epoch: number; readonly fence: string; readonly committedAt: string } | null
  }
  const applied = stored.applied && { ...stored.applied, fence: BigInt(stored.applied.fence) }
  return { ...stored, applied, fence: BigInt(stored.fence) }
}
