import type { TokenSubject } from '../auth/embedded-issuer.ts'
import type { Level } from '../flow.ts'
import { type Arguments, required, UsageError } from './arguments.ts'
import type { Command } from './command.ts'

const LEVELS = ['public', 'internal', 'confidential', 'restricted']

export const TOKEN_COMMANDS: Readonly<Record<string, Command>> = {
  token: {
    usage: 'token --role admin | --tenant T --user NAME [--group G]',
    summary: 'a bearer token of the embedded issuer; reads the key in the folder of keys',
    flags: {
      role: 'admin: an administrator of the platform',
      tenant: 'the tenant of the bearer',
      group: 'svc-developers or svc-viewers, or others; comma-separated',
      user: 'who it is for',
      clearance: `one of ${LEVELS.join(', ')}; narrows what is seen without a grant`,
      email: 'an address in the token',
      ttl: 'how long it is good: 15m, 1h, 12h; default: auth.token_ttl_s, one hour where that is not set',
    },
    async run({ args, config: read }) {
      const config = await read()
      if (config.auth.issuers.length > 0) {
        throw new UsageError(
          `tokens come from ${config.auth.issuers.map(({ issuer }) => issuer).join(', ')}: log in there, and set SLUICE_TOKEN`,
        )
      }
      return tokenFor(args, config.secrets_dir, config.auth.token_ttl_s)
    },
  },
  'token rotate-keys': {
    usage: 'token rotate-keys',
    summary: 'a new signing key of the embedded issuer; tokens signed before stay good until they end',
    async run({ config }) {
      const [{ MAX_TOKEN_TTL_S }, { rotateKeys }] = await Promise.all([
        import('../auth/embedded-issuer.ts'),
        import('../auth/key-file.ts'),
      ])
      const { secrets_dir: folder } = await config()
      return `Tokens are signed with the key ${await rotateKeys(folder, MAX_TOKEN_TTL_S)} from now on.`
    },
  },
}

/** What the command prints; the keys are those of that folder. */
export async function tokenFor(args: Arguments, keysDirectory: string, defaultTtlS: number): Promise<string> {
  const { issueToken } = await import('../auth/embedded-issuer.ts')
  return issueToken(keysDirectory, tokenSubject(args), { ttlS: ttlSeconds(args) ?? defaultTtlS })
}

function tokenSubject(args: Arguments): TokenSubject {
  const { role, clearance, group, email, user } = args.flags
  if (role === 'admin') return { role: 'admin', user: user ?? 'admin' }
  if (role) throw new UsageError('the only role is admin; people of a tenant have groups')
  if (clearance && !LEVELS.includes(clearance)) throw new UsageError(`--clearance is one of ${LEVELS.join(', ')}`)
  return {
    tenant: required(args, 'tenant'),
    groups: group ? group.split(',') : [],
    user: required(args, 'user'),
    ...(clearance ? { clearance: clearance as Level } : {}),
    ...(email ? { email } : {}),
  }
}

function ttlSeconds({ flags: { ttl } }: Arguments): number | null {
  if (ttl === undefined) return null
  const match = /^(\d{1,5})([smh])$/.exec(ttl)
  if (!match) throw new UsageError('--ttl is a number and s, m or h: 1h')
  return Number(match[1]) * { s: 1, m: 60, h: 3600 }[match[2] as 's' | 'm' | 'h']
}
