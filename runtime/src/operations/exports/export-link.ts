/** Links to files of exports: each proves that its one export may be asked for until its time, and nothing else. */
import { createHmac, hkdfSync, timingSafeEqual } from 'node:crypto'
import type pg from 'pg'
import type { Export } from '../../registry/exports.ts'
import type { MasterKeys } from '../../registry/master-keys.ts'
import { rowsKey } from '../../registry/tenant-keys.ts'

export interface ExportLink {
  /** Milliseconds since 1970. */
  readonly expiresAtMs: number
  /** In base64url. */
  readonly signature: string
}

interface LinkDeps {
  readonly pool: pg.Pool
  readonly masters: MasterKeys
}

export async function signLink(deps: LinkDeps, asked: Export, expiresAtMs: number): Promise<ExportLink> {
  return { expiresAtMs, signature: (await signatureOf(deps, asked, expiresAtMs)).toString('base64url') }
}

export async function isSigned(
  deps: LinkDeps,
  asked: Export,
  { expiresAtMs, signature }: ExportLink,
): Promise<boolean> {
  const wanted = await signatureOf(deps, asked, expiresAtMs)
  const given = Buffer.from(signature, 'base64url')
  return given.length === wanted.length && timingSafeEqual(given, wanted)
}

async function signatureOf({ pool, masters }: LinkDeps, { tenant, id, attempt }: Export, expiresAtMs: number) {
  const key = Buffer.from(hkdfSync('sha256', await rowsKey(pool, masters, tenant), tenant, 'export-links', 32))
  return createHmac('sha256', key)
    .update(JSON.stringify([tenant, id, attempt, expiresAtMs]))
    .digest()
}
