/** Exports: who asked for what, and what has become of it. The files are `ExportFiles`. */
import { SluiceError } from '@sluice/sdk'
import type { Principal } from '../flow.ts'
import type { RecordedError } from './deployments.ts'
import { newId } from './ids.ts'
import type { EpochMasks } from './materializations.ts'
import { type Page, type PageRequest, pageParameters, toPage } from './paging.ts'
import { change, json, many, maybeOne, one, type Queryable, type Transaction } from './sql.ts'

export type ExportFormat = 'parquet' | 'csv' | 'ndjson'
export type ExportState = 'queued' | 'running' | 'succeeded' | 'failed' | 'gone'

export interface ExportRequest {
  readonly sql: string
  readonly params?: readonly (string | number | boolean | null)[]
  readonly format: ExportFormat
  /** The destination that the file is also written to. */
  readonly to?: string
}

/** What rows were read from, and as what they were shown. */
export type ExportedTable =
  | {
      readonly type: 'product'
      readonly name: string
      readonly productId: string
      readonly variant: string
      readonly epoch: number
      readonly version: string
      readonly maskedColumns: readonly string[]
      /** As the epoch had them, which may be gone before the file is; those of a release before have none. */
      readonly masks?: EpochMasks | null
    }
  | { readonly type: 'raw'; readonly name: string; readonly connectionId: string; readonly table: string }
  | { readonly type: 'sandbox'; readonly name: string }

export interface ExportedColumn {
  readonly name: string
  readonly type: string
  readonly masked: boolean
}

/** Of one file in a bucket beyond the lake. */
export interface ExportPlace {
  readonly destination: string
  /** As the store writes it: bucket, prefix, tenant and file. */
  readonly address: string
}

/** Without keys of applications and agents: exports are for people and services with tokens. */
export type ExportPrincipal = Omit<Principal, 'key'>

export interface Export {
  readonly id: string
  readonly tenant: string
  readonly principal: ExportPrincipal
  readonly request: ExportRequest
  readonly state: ExportState
  /** Which attempt has it in hand, or has written it. */
  readonly attempt: number
  /** Null until it has succeeded. */
  readonly rows: number | null
  /** So far. */
  readonly bytes: number
  readonly parts: number
  readonly columns: readonly ExportedColumn[] | null
  readonly tables: readonly ExportedTable[]
  /** Null: it was written to no destination, or not yet. */
  readonly place: ExportPlace | null
  readonly error: RecordedError | null
  readonly createdAt: Date
  readonly finishedAt: Date | null
  readonly expiresAt: Date
  /** By the registry's clock. */
  readonly isExpired: boolean
}

const COLUMNS = `id, tenant, principal, request, state, attempt, rows, bytes, parts, columns, tables, place, error,
  created_at as "createdAt", finished_at as "finishedAt", expires_at as "expiresAt", expires_at <= clock_timestamp() as "isExpired"`

/** Kinds of jobs, the same for all runtimes: a tenant's exports are of one, and seldom of another tenant's. */
export const EXPORT_KINDS = 4
export const exportJob = (number: number): string => `export-${number}`

/** Of the tenant's exports. */
export function exportKindOf(tenant: string): string {
  let sum = 0
  for (const char of tenant) sum = (sum * 31 + (char.codePointAt(0) ?? 0)) % EXPORT_KINDS
  return exportJob(sum)
}

/** How long one may wait for its turn, attempts that failed included. What is written is kept for its time from then on. */
const WAITING_DAYS = 7

/** Throws QUOTA `too_many_exports`. One person has half of the tenant's at most. */
export async function createExport(
  tx: Transaction,
  { tenant, principal, request }: Pick<Export, 'tenant' | 'principal' | 'request'>,
  most: number,
): Promise<Export> {
  await one(tx, 'locking the tenant', 'select slug from tenants where slug = $1 for no key update', [tenant])
  const { count, own } = await one<{ readonly count: number; readonly own: number }>(
    tx,
    'counting exports',
    `select count(*)::int as count,
       (count(*) filter (where principal->>'issuer' = $2 and principal->>'subject' = $3))::int as own
     from exports where tenant = $1 and state in ('queued', 'running', 'succeeded') and expires_at > clock_timestamp()`,
    [tenant, principal.issuer, principal.subject],
  )
  const mostOwn = Math.ceil(most / 2)
  if (own >= mostOwn) throw tooMany(`you have ${own} exports, and may have ${mostOwn}`)
  if (count >= most) throw tooMany(`the tenant has ${count} exports, and may have ${most}`)
  return one<Export>(
    tx,
    'noting an export',
    `insert into exports (id, tenant, principal, request, state, expires_at)
     values ($1, $2, $3, $4, 'queued', clock_timestamp() + make_interval(days => $5)) returning ${COLUMNS}`,
    [newId('exp'), tenant, json(principal), json(request), WAITING_DAYS],
  )
}

function tooMany(what: string): SluiceError {
  return new SluiceError('QUOTA', what, {
    code: 'too_many_exports',
    remedy: 'Remove one (DELETE /api/v1/exports/{id}), or wait until one expires.',
    retryAfterMs: 60_000,
  })
}

export function findExport(db: Queryable, id: string): Promise<Export | null> {
  return maybeOne<Export>(db, 'reading the export', `select ${COLUMNS} from exports where id = $1`, [id])
}

/** Those that one person has asked for and that are there, newest first. */
export async function listExports(
  db: Queryable,
  tenant: string,
  { issuer, subject }: Pick<Principal, 'issuer' | 'subject'>,
  page: PageRequest,
): Promise<Page<Export>> {
  const parameters = pageParameters(page)
  const rows = await many<Export>(
    db,
    'reading exports',
    `select ${COLUMNS} from exports
     where tenant = $4 and principal->>'issuer' = $5 and principal->>'subject' = $6
       and state <> 'gone' and expires_at > clock_timestamp()
       and ($2::timestamptz is null or (created_at, id) < ($2, $3))
     order by created_at desc, id desc limit $1`,
    [...parameters, tenant, issuer, subject],
  )
  return toPage(rows, parameters, ({ createdAt, id }) => ({ createdAt, id }))
}

export interface BegunExport extends Export {
  /** Which has begun last before it; 0: none. */
  readonly formerAttempt: number
}

/** Null where there is nothing to be done any more. Former attempts may go on, and write nothing that counts. */
export function beginAttempt(db: Queryable, id: string, attempt: number): Promise<BegunExport | null> {
  return maybeOne<BegunExport>(
    db,
    'beginning an export',
    `update exports set state = 'running', attempt = $2, bytes = 0, parts = 0
     from (select id as begun, attempt as former from exports where id = $1 for update) before
     where id = begun and state in ('queued', 'running') and attempt < $2 and expires_at > clock_timestamp()
     returning ${COLUMNS}, former as "formerAttempt"`,
    [id, attempt],
  )
}

const IN_HAND = `id = $1 and attempt = $2 and state = 'running'`

/** Whether the attempt still has it in hand: it is not another's, not removed, and its time is not over. */
export async function isInHand(db: Queryable, { id, attempt }: Export): Promise<boolean> {
  const statement = `select id from exports where ${IN_HAND} and expires_at > clock_timestamp()`
  return (await maybeOne(db, 'looking at an export', statement, [id, attempt])) !== null
}

/** False where it is another attempt's by now, or gone. */
export async function noteWritten(
  db: Queryable,
  { id, attempt }: Export,
  { bytes, parts }: Pick<Export, 'bytes' | 'parts'>,
): Promise<boolean> {
  const statement = `update exports set bytes = $3, parts = $4 where ${IN_HAND}`
  return (await change(db, 'noting what was exported', statement, [id, attempt, bytes, parts])) > 0
}

export type Written = Pick<Export, 'bytes' | 'parts' | 'tables' | 'place'> & {
  readonly rows: number
  readonly columns: readonly ExportedColumn[]
}

/** The file is whole. False where it is another attempt's by now, or gone. It is kept for so long from now. */
export async function finishExport(
  db: Queryable,
  { id, attempt }: Export,
  { rows, bytes, parts, columns, tables, place }: Written,
  keepHours: number,
): Promise<boolean> {
  const productIds = tables.flatMap((table) => (table.type === 'product' ? [table.productId] : []))
  const finished = await change(
    db,
    'ending an export',
    `update exports set state = 'succeeded', rows = $3, bytes = $4, parts = $5, columns = $6, tables = $7, product_ids = $8, place = $10,
       finished_at = clock_timestamp(), expires_at = clock_timestamp() + make_interval(hours => $9) where ${IN_HAND}`,
    [
      id,
      attempt,
      rows,
      bytes,
      parts,
      json(columns),
      json(tables),
      productIds,
      keepHours,
      place === null ? null : json(place),
    ],
  )
  return finished > 0
}

/** What it was is told for an hour. */
export async function failExport(db: Queryable, { id, attempt }: Export, error: RecordedError): Promise<void> {
  await change(
    db,
    'ending an export',
    `update exports set state = 'failed', error = $3, finished_at = clock_timestamp(), bytes = 0, parts = 0,
       expires_at = clock_timestamp() + interval '1 hour' where ${IN_HAND}`,
    [id, attempt, json(error)],
  )
}

/** Nobody is given anything of it from here on; its files are still to be removed. */
export async function endExport(db: Queryable, id: string): Promise<void> {
  await change(db, 'removing an export', `update exports set state = 'gone' where id = $1`, [id])
}

export interface SweptExport {
  readonly id: string
  readonly tenant: string
}

/**
 * Marks those that have expired, and those of whose products one is gone; gives all whose files are to be removed.
 * @param except ids of those that could not be removed just now
 */
export async function exportsToSweep(
  db: Queryable,
  most: number,
  except: readonly string[],
): Promise<readonly SweptExport[]> {
  await change(
    db,
    'ending exports',
    `update exports e set state = 'gone' where state <> 'gone' and (expires_at <= clock_timestamp()
       or exists (select from unnest(e.product_ids) p (id) where not exists (select from products where products.id = p.id)))`,
  )
  return many<SweptExport>(
    db,
    'reading exports',
    `select id, tenant from exports where state = 'gone' and id <> all($2::text[]) order by expires_at limit $1`,
    [most, except],
  )
}

export async function forgetExport(db: Queryable, id: string): Promise<void> {
  await change(db, 'forgetting an export', `delete from exports where id = $1 and state = 'gone'`, [id])
}

/** Jobs of exports that nothing is to be done for. */
export async function forgetExportJobs(db: Queryable): Promise<void> {
  await change(
    db,
    'forgetting jobs',
    `delete from jobs j where j.kind = any($1) and j.lease_until is null
       and not exists (select from exports e where e.id = j.key and e.state in ('queued', 'running'))`,
    [Array.from({ length: EXPORT_KINDS }, (_, number) => exportJob(number))],
  )
}

/**
 * Ends what may have rows of these products, of products that are no more or of any table that is no product, and what is written
 * just now. Their files are still to be removed.
 */
export function endExportsOf(db: Queryable, tenant: string, productIds: readonly string[]): Promise<SweptExport[]> {
  return many<SweptExport>(
    db,
    'ending exports',
    `update exports set state = 'gone' where tenant = $1 and (state in ('queued', 'running', 'gone') or product_ids && $2::text[]
       or jsonb_path_exists(coalesce(tables, '[]'), '$[*] ? (@.type != "product")')
       or exists (select from unnest(product_ids) p (id) where not exists (select from products where products.id = p.id)))
     returning id, tenant`,
    [tenant, productIds],
  )
}
