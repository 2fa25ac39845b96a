/** Asks for an export, tells what has become of it, gives its file, removes it. An export is its author's alone. */
import { quoteName, quoteTable } from '@sluice/engine'
import { checkSqlText, isSluiceError, SluiceError } from '@sluice/sdk'
import { inTransaction } from '../../database/pools.ts'
import type { ByteRange, TenantCall } from '../../flow.ts'
import { askForJobs, ringForJobs } from '../../jobs/claims.ts'
import { isActor } from '../../registry/actor.ts'
import { appendAudit } from '../../registry/audit.ts'
import { databaseNow } from '../../registry/clock.ts'
import { beingDeleted, productsStaying } from '../../registry/deletions.ts'
import {
  createExport,
  type Export,
  type ExportFormat,
  type ExportPrincipal,
  type ExportRequest,
  endExport,
  exportKindOf,
  findExport,
  listExports,
} from '../../registry/exports.ts'
import { isId } from '../../registry/ids.ts'
import type { Page, PageRequest } from '../../registry/paging.ts'
import { audited } from '../audit.ts'
import type { Keep } from '../keep.ts'
import { NamedTables } from '../queries/named-tables.ts'
import { shownTables } from '../queries/shown-tables.ts'
import { findReadable } from '../reads/read-keys.ts'
import { accessOrNull, NO_PRODUCT } from '../served/served-product.ts'
import { checkStorage } from '../tenants/tenants.ts'
import type { ExportsDeps } from './deps.ts'
import { requireExportable, unsupported } from './export-access.ts'
import { type ExportLink, isSigned, signLink } from './export-link.ts'

export interface AskedExport {
  readonly format?: ExportFormat
  /** In place of a statement: all rows of the product. */
  readonly product?: string
  readonly columns?: readonly string[]
  readonly sql?: string
  readonly params?: ExportRequest['params']
  /** A destination that an operator has named. */
  readonly to?: string
}

/** Throws INVALID_DATA `product_not_found`, `invalid_value`, `sql_too_long`, `export_destination_unknown`, QUOTA `too_many_exports`, `tier_limit_exceeded`. */
export async function requestExport(
  platform: ExportsDeps,
  call: TenantCall,
  asked: AskedExport,
  keep: Keep<Export>,
): Promise<Export> {
  const { pool, config, exportDestinations } = platform
  const { format = 'parquet', params, to } = asked
  if (to !== undefined) exportDestinations.require(call.tenant, to)
  const sql = await statementOf(platform, call, asked)
  const request: ExportRequest = {
    sql,
    format,
    ...(params === undefined ? {} : { params }),
    ...(to === undefined ? {} : { to }),
  }
  const { key: _none, ...principal } = call.principal
  // Also asked before it is written, where it decides; who has no room is told at once.
  await checkStorage(platform, call.tenant)
  return inTransaction(pool, async (tx) => {
    const made = await createExport(tx, { tenant: call.tenant, principal, request }, config.exports.most)
    await askForJobs(tx, [{ kind: exportKindOf(call.tenant), key: made.id, tenant: call.tenant }])
    await ringForJobs(tx)
    await audited(
      tx,
      call,
      call.tenant,
      'export.create',
      { type: 'export', id: made.id },
      { format, ...(to === undefined ? {} : { to }) },
    )
    await keep(tx, made)
    return made
  })
}

async function statementOf(platform: ExportsDeps, call: TenantCall, asked: AskedExport): Promise<string> {
  const { sql, product, columns, params } = asked
  if ((sql === undefined) === (product === undefined)) throw invalid('an export is of a product or of a statement')
  if (sql !== undefined) {
    if (columns !== undefined) throw invalid('a statement names its columns itself')
    checkSqlText({ text: sql, leadBytes: 0 })
    const names = new NamedTables(sql)
    if (shownTables(sql) !== null || names.describes) throw unsupported('a description of tables')
    await requireStaying(platform, call, [...names.products])
    return sql
  }
  if (params !== undefined) throw invalid('parameters are for statements')
  const { domain, name } = await readable(platform, call, product as string)
  await requireStaying(platform, call, [`${domain}.${name}`])
  return `SELECT ${columns?.map(quoteName).join(', ') ?? '*'} FROM ${quoteTable([domain, name])}`
}

/** The file would be refused by the time that it is there. @param names `namespace.product` */
async function requireStaying(platform: ExportsDeps, call: TenantCall, names: readonly string[]): Promise<void> {
  const known = await productsStaying(platform.pool, call.tenant, names)
  const leaving = new Set(names.filter((name) => known.get(name)?.isLeaving))
  for (const product of await platform.served.named(call.tenant, leaving)) {
    // Who may not read it is not told that there is one.
    if (accessOrNull(product, call.principal, platform.rules) === null) continue
    throw beingDeleted(`the product ${product.domain}.${product.name}`)
  }
}

/** What may not be read is answered like what is not there. */
async function readable(platform: ExportsDeps, call: TenantCall, reference: string) {
  const none = () => new SluiceError('INVALID_DATA', NO_PRODUCT.message, { ...NO_PRODUCT })
  const find: Parameters<typeof findReadable>[2]['find'] = (...by) => platform.served.find(...by)
  const found = await findReadable(reference, call, { find, rules: platform.rules }).catch((error: unknown) => {
    throw isSluiceError(error) && error.code === NO_PRODUCT.code ? none() : error
  })
  if (accessOrNull(found, call.principal, platform.rules) === null) throw none()
  return found
}

/** The caller's own, without links. */
export function ownExports({ pool }: ExportsDeps, call: TenantCall, page: PageRequest): Promise<Page<Export>> {
  return listExports(pool, call.tenant, call.principal, page)
}

export interface TellableExport {
  readonly found: Export
  /** Null: there is no file, or it may not be given any more. */
  readonly link: ExportLink | null
}

/** With a new link where it is done. Throws INVALID_DATA `export_not_found`, also for those of others. */
export async function tellExport(platform: ExportsDeps, call: TenantCall, id: string): Promise<TellableExport> {
  const found = await ownExport(platform, call, id)
  if (found.state !== 'succeeded') return { found, link: null }
  // The rights of whoever asks now, as his token says; the export keeps those that it was made under.
  const asNow = { ...found, principal: principalOf(call) }
  for (const who of [found, asNow]) {
    const isGood = await requireExportable(platform, who).then(() => true, refusedOrThrow)
    if (!isGood) return { found, link: null }
  }
  const nowMs = (await databaseNow(platform.pool)).getTime()
  const untilMs = Math.min(nowMs + platform.config.exports.link_seconds * 1_000, found.expiresAt.getTime())
  return { found, link: await signLink(platform, found, untilMs) }
}

const principalOf = ({ principal: { key: _none, ...principal } }: TenantCall): ExportPrincipal => principal

function refusedOrThrow(error: unknown): false {
  if (isSluiceError(error, 'PERMISSION')) return false
  throw error
}

export interface OpenedExport {
  readonly found: Export
  /** The download begins, and is on record, when the first is asked for. */
  chunks(signal: AbortSignal, range: ByteRange | null): AsyncIterable<Uint8Array>
}

/** A download that its link has begun goes on for so long after the link's end. */
const DOWNLOAD_LEFT_MS = 3_600_000

/**
 * The file, for whoever has the link. Throws INVALID_DATA `export_not_found`, `export_gone`, PERMISSION `export_not_permitted`, and so
 * while it is read.
 */
export async function openExport(
  platform: ExportsDeps,
  id: string,
  link: ExportLink,
  requestId: string,
): Promise<OpenedExport> {
  const { pool, exportFiles } = platform
  const found = isId(id, 'exp') ? await findExport(pool, id) : null
  if (found === null || !(await isSigned(platform, found, link))) throw notFound()
  const nowMs = (await databaseNow(pool)).getTime()
  if (found.state !== 'succeeded' || found.isExpired || link.expiresAtMs <= nowMs) throw gone()
  await requireExportable(platform, found)
  const endsAtMs = performance.now() + link.expiresAtMs - nowMs + DOWNLOAD_LEFT_MS
  const mayGoOn = async () => {
    if (performance.now() > endsAtMs) throw gone()
    const now = await findExport(pool, id)
    if (now === null || now.state !== 'succeeded' || now.isExpired) throw gone()
    await requireExportable(platform, now)
  }
  return {
    found,
    async *chunks(signal, range) {
      await appendAudit(pool, {
        tenant: found.tenant,
        actor: { issuer: found.principal.issuer, subject: found.principal.subject },
        action: 'export.download',
        objectType: 'export',
        objectId: id,
        outcome: 'allowed',
        requestId,
        details: range === null ? {} : { from_byte: range.from, to_byte: range.to },
      })
      yield* exportFiles.read(found, found, mayGoOn, signal, range ?? undefined)
    },
  }
}

/**
 * Nobody is given anything of it from then on. What is left of its files is swept. Administrators remove anybody's, so that what
 * one person has left takes no room from the others.
 */
export async function removeExport(platform: ExportsDeps, call: TenantCall, id: string): Promise<void> {
  const found = await presentExport(platform, call, id)
  if (found === null || !(call.principal.isAdmin || isActor(call.principal, found.principal))) throw notFound()
  await inTransaction(platform.pool, async (tx) => {
    await endExport(tx, found.id)
    await audited(tx, call, call.tenant, 'export.delete', { type: 'export', id: found.id })
  })
  await platform.exportFiles.remove(found)
}

async function ownExport(platform: ExportsDeps, call: TenantCall, id: string): Promise<Export> {
  const found = await presentExport(platform, call, id)
  if (found === null || !isActor(call.principal, found.principal)) throw notFound()
  return found
}

async function presentExport({ pool }: ExportsDeps, call: TenantCall, id: string): Promise<Export | null> {
  const found = isId(id, 'exp') ? await findExport(pool, id) : null
  return found?.tenant !== call.tenant || found.state === 'gone' || found.isExpired ? null : found
}

function notFound(): SluiceError {
  return new SluiceError('INVALID_DATA', 'there is no such export', {
    code: 'export_not_found',
    remedy: 'Check the id or the link; an export is told to whoever asked for it, until it expires.',
  })
}

function gone(): SluiceError {
  return new SluiceError('INVALID_DATA', 'the link, or the export, has expired', {
    code: 'export_gone',
    remedy: 'Ask for the export again for a new link (GET /api/v1/exports/{id}), or make another export.',
  })
}

const invalid = (what: string) =>
  new SluiceError('INVALID_DATA', what, {
    code: 'invalid_value',
    remedy: 'Send "product", with "columns" or without, or "sql", with "params" or without.',
  })
