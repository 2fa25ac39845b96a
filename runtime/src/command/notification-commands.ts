import { required } from './arguments.ts'
import { type Command, gone, segment, word } from './command.ts'
import { textTable } from './text-table.ts'

interface TargetAnswer {
  readonly id: string
  readonly kind: string
  readonly name: string
  readonly host: string
  readonly hears: string
  readonly created_by: string
  readonly delivered_at: string | null
  readonly error_code: string | null
  readonly signing_key?: string | null
}

const PATH = '/api/v1/notifications'
const HEADER = ['name', 'kind', 'host', 'hears of', 'by', 'delivered', 'newest try', 'id']

function row({ name, kind, host, hears, created_by, delivered_at, error_code, id }: TargetAnswer) {
  return [name, kind, host, hears, created_by, delivered_at ?? 'never', error_code ?? 'ok', id]
}

export const NOTIFICATION_COMMANDS: Readonly<Record<string, Command>> = {
  'notification create': {
    usage: 'notification create NAME --to https://… [--kind webhook|slack]',
    summary: 'be told there once when something of yours begins to fail, and once when that is over',
    flags: { to: 'the address', kind: 'webhook, signed with a key that is shown once (default), or slack' },
    remote: true,
    async run(call) {
      const wanted = {
        name: word(call, 0, 'NAME'),
        kind: call.args.flags['kind'] ?? 'webhook',
        url: required(call.args, 'to'),
      }
      const made = (await (await call.client()).request('POST', PATH, wanted)) as TargetAnswer
      if (call.args.flags['json']) return made
      const key = made.signing_key ? `\nThe signing key, which is not shown again: ${made.signing_key}` : ''
      return `${textTable(HEADER, [row(made)])}${key}`
    },
  },
  'notification list': {
    usage: 'notification list',
    summary: 'where incidents of the tenant are told, newest first',
    remote: true,
    async run(call) {
      const found = (await (await call.client()).list(PATH)) as TargetAnswer[]
      return call.args.flags['json'] ? found : textTable(HEADER, found.map(row))
    },
  },
  'notification delete': {
    usage: 'notification delete ID',
    summary: 'tell nothing there any more',
    remote: true,
    async run(call) {
      await (await call.client()).request('DELETE', `${PATH}/${segment(call, 0, 'ID')}`)
      return gone(call, 'It is told nothing any more.')
    },
  },
}
