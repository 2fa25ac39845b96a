/** Token buckets of the rate limits, for all processes that share the registry. */
import { createHash } from 'node:crypto'
import type pg from 'pg'
import { change, one, type Queryable } from './sql.ts'

export interface BucketPolicy {
  readonly ratePerS: number
  /** What a full bucket holds. */
  readonly burst: number
}

export interface BucketLease {
  /** Whole tokens, at most those wanted. */
  readonly granted: number
  readonly remaining: number
}

/** Tokens of the bucket with what it gained since; time is the database's, and never goes back. */
const FULL = `least($4::float8, b.tokens
  + greatest(0, extract(epoch from statement_timestamp() - b.refilled_at)) * $3::float8)`

const LEASE = `
insert into rate_buckets as b (key_hash, tokens, granted, refilled_at)
values ($1, $4::float8 - least($2::int, floor($4::float8)), least($2::int, floor($4::float8)), statement_timestamp())
on conflict (key_hash) do update set
  granted = least($2::int, floor(${FULL})),
  tokens = ${FULL} - least($2::int, floor(${FULL})),
  refilled_at = greatest(b.refilled_at, statement_timestamp())
returning granted, tokens as remaining`

export class RateBuckets {
  readonly #pool: pg.Pool

  constructor(pool: pg.Pool) {
    this.#pool = pool
  }

  /** One statement: of leases of a key at once each sees what the one before has left. */
  lease(key: string, wanted: number, policy: BucketPolicy): Promise<BucketLease> {
    const hash = createHash('sha256').update(key).digest()
    return one<BucketLease>(this.#pool, 'taking from the rate limit', LEASE, [
      hash,
      wanted,
      policy.ratePerS,
      policy.burst,
    ])
  }
}

const IDLE = '1 hour'

/** Removes buckets that nobody has asked for in an hour, which are full again; at most `limit`, returns how many. */
export function pruneRateBuckets(db: Queryable, limit: number): Promise<number> {
  return change(
    db,
    'removing unused rate limits',
    `delete from rate_buckets where key_hash in (
       select key_hash from rate_buckets where refilled_at < statement_timestamp() - $2::interval
       limit $1 for update skip locked)`,
    [limit, IDLE],
  )
}
