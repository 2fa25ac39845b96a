/** What a run is doing to a product, while it does it: which step, and which stores are being written. */
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import type { StoreOutcome } from '../materializer/sync-endpoints.ts'
import type { Product } from '../registry/products.ts'
import type { RunLease } from '../registry/run-claims.ts'
import { saveRunResult } from '../registry/run-progress.ts'
import { fullNameOf, type ProductOutcome } from './product-outcome.ts'

export interface ProductProgress {
  readonly product_id: string
  readonly product: string
  /** Its rows are made and checked, or its stores are written. */
  readonly phase: 'making' | 'writing'
  /** That is published already; null while rows are made. */
  readonly epoch: number | null
  readonly stores: readonly StoreOutcome[]
}

export interface ProgressWriter {
  /** There is something to make of it. */
  readonly begun: () => void
  readonly report: (epoch: number, stores: readonly StoreOutcome[]) => void
  /** Nothing is written after it. */
  settle(): Promise<void>
}

/** Whoever looks at a run does so now and then: stores that take a small change one after the other are told of together. */
const EVERY_MS = 250

/** Beside the outcomes of products that are done. One statement at a time, and of what waits the newest; nobody waits for it. */
export function productProgress(
  pool: pg.Pool,
  lease: RunLease,
  product: Product,
  done: readonly ProductOutcome[],
): ProgressWriter {
  let waiting: ProductProgress | null = null
  let writing: Promise<void> = Promise.resolve()
  const settled = new AbortController()
  const write = async (): Promise<void> => {
    const progress = waiting
    waiting = null
    // A lost lease is found by what is written at the end; a report that fails is no reason to stop.
    if (progress !== null) await saveRunResult(pool, lease, { products: done, progress }).catch(() => undefined)
    // The end of the work ends it, and what waits is written at once.
    await sleep(EVERY_MS, undefined, { signal: settled.signal }).catch(() => undefined)
  }
  const tell = (phase: ProductProgress['phase'], epoch: number | null, stores: readonly StoreOutcome[]): void => {
    if (waiting === null) writing = writing.then(write)
    waiting = { product_id: product.id, product: fullNameOf(product), phase, epoch, stores }
  }
  return {
    begun: () => tell('making', null, []),
    report: (epoch, stores) => tell('writing', epoch, stores),
    settle() {
      settled.abort()
      return writing
    },
  }
}
