import { listed, UsageError } from './arguments.ts'
import { type Command, gone, word } from './command.ts'
import { textTable } from './text-table.ts'

interface KeyAnswer {
  readonly id: string
  readonly name: string
  readonly products: readonly string[] | null
  readonly operations: readonly string[]
  readonly unmask: readonly string[]
  readonly created_by: string
  readonly expires_at: string
  readonly last_used_at: string | null
}

const PATH = '/api/v1/application-keys'
const HEADER = ['name', 'products', 'for', 'clear', 'by', 'expires', 'last used', 'id']

function row({ name, products, operations, unmask, created_by, expires_at, last_used_at, id }: KeyAnswer) {
  const of = products === null ? 'all of its maker' : products.join(', ')
  return [
    name,
    of,
    operations.join(', '),
    unmask.join(', '),
    created_by,
    expires_at.slice(0, 10),
    last_used_at ?? 'never',
    id,
  ]
}

function daysOf(text: string | undefined): { readonly expires_in_days?: number } {
  if (text === undefined) return {}
  const days = Number(text)
  if (!Number.isInteger(days)) throw new UsageError('--days takes a whole number')
  return { expires_in_days: days }
}

export const APPLICATION_KEY_COMMANDS: Readonly<Record<string, Command>> = {
  'application-key create': {
    usage: 'application-key create NAME',
    summary: 'make a key with which an application reads what you may read; shown once',
    flags: {
      products: 'those only, as crm.people,crm.orders; default: all that you may read, but restricted ones',
      for: 'read (endpoints), query (SQL) or both: read,query, the default',
      unmask: 'classes to show in clear where you see them so, as pii.name; * is all; default none',
      days: 'until it expires; default 90, at most 365',
    },
    remote: true,
    async run(call) {
      const { args } = call
      const [products, operations, unmask] = [listed(args, 'products'), listed(args, 'for'), listed(args, 'unmask')]
      const wanted = {
        name: word(call, 0, 'NAME'),
        ...(products.length > 0 ? { products } : {}),
        ...(operations.length > 0 ? { operations } : {}),
        ...(unmask.length > 0 ? { unmask } : {}),
        ...daysOf(args.flags['days']),
      }
      const made = (await (await call.client()).request('POST', PATH, wanted)) as KeyAnswer & { readonly token: string }
      if (args.flags['json']) return made
      const until = `It ends on ${made.expires_at.slice(0, 10)}, or with sluice application-key revoke ${made.id}.`
      return [made.token, '', `This is shown once. Send it as "Authorization: Bearer …".`, until].join('\n')
    },
  },
  'application-key list': {
    usage: 'application-key list',
    summary: 'keys of the tenant’s applications, newest first, and when each was last used',
    remote: true,
    async run(call) {
      const found = (await (await call.client()).list(PATH)) as KeyAnswer[]
      return call.args.flags['json'] ? found : textTable(HEADER, found.map(row))
    },
  },
  'application-key revoke': {
    usage: 'application-key revoke KEY | --made-by USER',
    summary: 'end a key at once, by its id, or every key that somebody made',
    flags: {
      'made-by': 'all that this person made, by the subject of their tokens',
      issuer: 'whose user that is; default: of your own issuer',
    },
    remote: true,
    async run(call) {
      const client = await call.client()
      const { 'made-by': maker, issuer } = call.args.flags
      if (maker !== undefined && call.words.length > 0) throw new UsageError('either KEY or --made-by, not both')
      if (maker === undefined) {
        const id = word(call, 0, 'KEY')
        await client.request('DELETE', `${PATH}/${encodeURIComponent(id)}`)
        return gone(call, `The key ${id} is revoked.`)
      }
      const query = new URLSearchParams({ created_by: maker, ...(issuer === undefined ? {} : { issuer }) })
      const { revoked } = (await client.request('DELETE', `${PATH}?${query}`)) as {
        readonly revoked: readonly string[]
      }
      if (call.args.flags['json']) return { revoked }
      return revoked.length === 0 ? `${maker} has made no keys.` : `Revoked: ${revoked.join(', ')}.`
    },
  },
}
