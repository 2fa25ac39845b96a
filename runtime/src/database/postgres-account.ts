/**
 * Which system account runs the embedded server. PostgreSQL refuses root, so a runtime started by root hands its
 * server to an account without rights; started by anybody else, it runs as that user.
 */
import { spawnSync } from 'node:child_process'
import { readFileSync, statSync } from 'node:fs'
import { SluiceError } from '@sluice/sdk'

export interface Account {
  readonly name: string
  readonly uid: number
  readonly gid: number
}

/** The account made where the system has none of PostgreSQL's own. */
export const OWN_ACCOUNT = 'sluice-pg'

/** In order: what we made before, PostgreSQL's usual accounts, and one that every system has and nothing uses. */
const CANDIDATES = [OWN_ACCOUNT, 'postgres', '_postgres'] as const
const LAST_RESORT = 'daemon'

/**
 * Null where this process is not root: the server then runs as this user. `clusterFolder` is the server's data folder;
 * where it exists already its owner is the only account that can open it.
 */
export function chooseAccount(clusterFolder: string, wanted?: string): Account | null {
  if (process.getuid?.() !== 0) return null
  const owner = ownerOf(clusterFolder)
  if (owner !== null) return owner
  if (wanted !== undefined)
    return accountNamed(wanted) ?? refuse(`there is no account "${wanted}" to run PostgreSQL as`)
  for (const name of CANDIDATES) {
    const account = accountNamed(name)
    if (account) return account
  }
  return (
    createAccount() ??
    accountNamed(LAST_RESORT) ??
    refuse('PostgreSQL does not run as root, and there is no other account')
  )
}

function ownerOf(folder: string): Account | null {
  const stat = statSync(folder, { throwIfNoEntry: false })
  if (!stat || stat.uid === 0) return null
  return { name: accountWithId(stat.uid) ?? String(stat.uid), uid: stat.uid, gid: stat.gid }
}

function createAccount(): Account | null {
  const commands = [
    ['useradd', '--system', '--no-create-home', '--user-group', '--shell', '/usr/sbin/nologin', OWN_ACCOUNT],
    // BusyBox, where there is no useradd.
    ['adduser', '-S', '-D', '-H', OWN_ACCOUNT],
  ] as const
  for (const [command, ...args] of commands) {
    spawnSync(command, args, { stdio: 'ignore' })
    const account = accountNamed(OWN_ACCOUNT)
    if (account) return account
  }
  return null
}

function accountNamed(name: string): Account | null {
  const uid = idOf('-u', name)
  const gid = idOf('-g', name)
  return uid === null || gid === null || uid === 0 ? null : { name, uid, gid }
}

function idOf(flag: '-u' | '-g', name: string): number | null {
  const result = spawnSync('id', [flag, name], { encoding: 'utf8' })
  return result.status === 0 ? Number(result.stdout.trim()) : null
}

function accountWithId(uid: number): string | null {
  try {
    const lines = readFileSync('/etc/passwd', 'utf8').split('\n')
    return lines.map((line) => line.split(':')).find((fields) => fields[2] === String(uid))?.[0] ?? null
  } catch {
    // No list of accounts that could be read: as where the account is not in it.
    return null
  }
}

function refuse(what: string): never {
  throw new SluiceError('CONFIG', what, {
    code: 'postgres_account_missing',
    remedy: `Start the runtime as an ordinary user, or create a system account named ${OWN_ACCOUNT}.`,
  })
}
