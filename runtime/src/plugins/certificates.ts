/** Certificates that are at hand, and which of them speak of the files of a package. */
import { readdir, readFile, readlink, stat } from 'node:fs/promises'
import { join, relative, sep } from 'node:path'
import { CERTIFICATE_SUFFIX, type Certificate, countsInPackage, packageDigest, readCertificate } from '@sluice/sdk'

const MAX_CERTIFICATE_BYTES = 256 * 1024
const MAX_CERTIFICATES = 1000
const MAX_PACKAGE_FILES = 10_000
const MAX_PACKAGE_BYTES = 128 * 1024 * 1024

export type FoundCertificate =
  | { readonly file: string; readonly certificate: Certificate }
  | { readonly file: string; readonly problem: string }

/** All certificates of a folder, in the order of their names; a folder that is not there has none. */
export async function certificatesIn(folder: string): Promise<readonly FoundCertificate[]> {
  const names = await readdir(folder).catch(() => [])
  const found: FoundCertificate[] = []
  for (const name of names
    .filter((entry) => entry.endsWith(CERTIFICATE_SUFFIX))
    .sort()
    .slice(0, MAX_CERTIFICATES)) {
    const file = join(folder, name)
    const isSmall = (await stat(file).catch(() => null))?.size ?? Number.POSITIVE_INFINITY
    const text = isSmall > MAX_CERTIFICATE_BYTES ? null : await readFile(file, 'utf8').catch(() => null)
    const read = text === null ? { problem: 'it cannot be read' } : readCertificate(text)
    found.push('problem' in read ? { file, problem: read.problem } : { file, certificate: read })
  }
  return found
}

/** The digest of the files as they are now; null where there are too many to be a plugin's. */
export async function digestOfFolder(
  folder: string,
  published: readonly string[] | null = null,
): Promise<string | null> {
  const files = new Map<string, Uint8Array>()
  let totalBytes = 0
  for await (const path of filesBelow(folder)) {
    const name = relative(folder, path).split(sep).join('/')
    if (!countsInPackage(name, published)) continue
    const link = await readlink(path).catch(() => null)
    const bytes = link === null ? await readFile(path) : Buffer.from(link)
    totalBytes += bytes.byteLength
    if (files.size >= MAX_PACKAGE_FILES || totalBytes > MAX_PACKAGE_BYTES) return null
    files.set(name, bytes)
  }
  return packageDigest(files, published)
}

/** What npm and git keep is not even looked at: it may be huge. */
async function* filesBelow(folder: string): AsyncGenerator<string> {
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name)
    if (!entry.isDirectory()) yield path
    else if (entry.name !== 'node_modules' && entry.name !== '.git') yield* filesBelow(path)
  }
}
