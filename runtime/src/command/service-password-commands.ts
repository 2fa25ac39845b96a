import { required, UsageError } from './arguments.ts'
import { type Command, gone, word } from './command.ts'
import { textTable } from './text-table.ts'

interface PasswordAnswer {
  readonly id: string
  readonly name: string
  readonly group: string
  readonly clearance: string | null
  readonly created_by: string
  readonly expires_at: string | null
  readonly last_used_at: string | null
}

const PATH = '/api/v1/service-passwords'
const HEADER = ['name', 'group', 'clearance', 'by', 'expires', 'last used', 'user']

const row = ({ name, group, clearance, created_by, expires_at, last_used_at, id }: PasswordAnswer) => [
  name,
  group,
  clearance ?? '',
  created_by,
  expires_at?.slice(0, 10) ?? 'never',
  last_used_at ?? 'never',
  id,
]

function daysOf(text: string | undefined): { readonly expires_in_days?: number } {
  if (text === undefined) return {}
  const days = Number(text)
  if (!Number.isInteger(days)) throw new UsageError('--days takes a whole number')
  return { expires_in_days: days }
}

export const SERVICE_PASSWORD_COMMANDS: Readonly<Record<string, Command>> = {
  'service-password create': {
    usage: 'service-password create NAME --team TEAM',
    summary: 'make a password for a tool that speaks to PostgreSQL; for administrators, shown once',
    flags: {
      team: 'the group whose grants it has',
      clearance:
        'public, internal, confidential or restricted, to narrow what it reads without a grant; default as the group’s members',
      days: 'until it expires; default never',
    },
    remote: true,
    async run(call) {
      const { clearance, days } = call.args.flags
      const wanted = {
        name: word(call, 0, 'NAME'),
        group: required(call.args, 'team'),
        ...(clearance === undefined ? {} : { clearance }),
        ...daysOf(days),
      }
      const client = await call.client('admin')
      const made = (await client.request('POST', PATH, wanted)) as PasswordAnswer & { readonly password: string }
      if (call.args.flags['json']) return made
      const until = made.expires_at === null ? 'It ends' : `It ends on ${made.expires_at.slice(0, 10)}, or`
      return [
        `user      ${made.id}`,
        `password  ${made.password}`,
        '',
        'The password is shown once. The database is the tenant; host and port are those of wire.',
        `${until} with sluice service-password delete ${made.id}.`,
      ].join('\n')
    },
  },
  'service-password list': {
    usage: 'service-password list',
    summary: 'passwords of the tenant’s tools, newest first, and when each was last used',
    remote: true,
    async run(call) {
      const found = (await (await call.client()).list(PATH)) as PasswordAnswer[]
      return call.args.flags['json'] ? found : textTable(HEADER, found.map(row))
    },
  },
  'service-password delete': {
    usage: 'service-password delete USER',
    summary: 'end a password, and the sessions by it within seconds',
    remote: true,
    async run(call) {
      const id = word(call, 0, 'USER')
      await (await call.client()).request('DELETE', `${PATH}/${encodeURIComponent(id)}`)
      return gone(call, `The service password ${id} is deleted.`)
    },
  },
}
