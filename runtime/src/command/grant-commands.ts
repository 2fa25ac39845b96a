import { type Arguments, listed, UsageError } from './arguments.ts'
import { type Command, type CommandCall, segment, word } from './command.ts'
import { textTable } from './text-table.ts'

interface GrantAnswer {
  readonly id: string
  readonly subject: { readonly user?: string; readonly team?: string }
  readonly issuer: string | null
  /** Of grants on products. */
  readonly may?: string
  readonly classes?: readonly string[]
  /** Of grants on raw tables; null: every table. */
  readonly table?: string | null
  readonly grantable: boolean | readonly string[]
  readonly granted_by: string
}

/** What ended with a grant; nothing where none did. */
type Ended = { readonly ended: readonly (Pick<GrantAnswer, 'id' | 'subject'> & { readonly whole: boolean })[] } | null

const HEADER = ['subject', 'may', 'of', 'grantable', 'by', 'id']

function row({ id, subject, may, classes, table, grantable, granted_by }: GrantAnswer) {
  const who = subject.user === undefined ? `team ${subject.team}` : `user ${subject.user}`
  const of = may === undefined ? (table ?? 'every table') : (classes ?? []).join(', ')
  const further = typeof grantable === 'boolean' ? (grantable ? 'yes' : '') : grantable.join(', ')
  return [who, may ?? 'read', of, further, granted_by, id]
}

const ON = { connection: 'grants on raw tables of this connection, in place of a product' }

/** Whose grants: those of the product that is named, or of the connection of `--connection`; and the words behind it. */
function placeOf(call: CommandCall, what?: 'remove'): { readonly path: string; readonly next: number } {
  const { connection } = call.args.flags
  const extra = call.words[what === 'remove' ? 1 : 0]
  if (connection !== undefined && extra !== undefined) throw new UsageError('either PRODUCT or --connection, not both')
  if (connection !== undefined) return { path: `/api/v1/connections/${encodeURIComponent(connection)}/grants`, next: 0 }
  return { path: `/api/v1/products/${segment(call, 0, 'PRODUCT')}/grants`, next: 1 }
}

function wantedOf(args: Arguments) {
  const { to: user, team, issuer, connection, table } = args.flags
  if (user !== undefined && team !== undefined) throw new UsageError('either --to or --team, not both')
  if (user === undefined && team === undefined) {
    throw new UsageError('--to USER or --team TEAM is needed; --user says as whom you do it')
  }
  const subject = user === undefined ? { team } : { user }
  const about = { subject, ...(issuer === undefined ? {} : { issuer }), grantable: args.flags['grantable'] === 'true' }
  if (connection !== undefined) return { ...about, ...(table === undefined ? {} : { table }) }
  const classes = listed(args, 'unmask')
  return { ...about, ...(classes.length > 0 ? { may: 'unmask', classes } : { may: 'read' }) }
}

export const GRANT_COMMANDS: Readonly<Record<string, Command>> = {
  'grant list': {
    usage: 'grant list PRODUCT | --connection NAME',
    summary: 'who may read a product or raw tables, newest first',
    flags: ON,
    remote: true,
    async run(call) {
      const found = (await (await call.client()).list(placeOf(call).path)) as GrantAnswer[]
      return call.args.flags['json'] ? found : textTable(HEADER, found.map(row))
    },
  },
  'grant add': {
    usage: 'grant add PRODUCT | --connection NAME --to USER | --team TEAM',
    summary: 'let a user or a team read a product, unmask classes of it, or read raw tables',
    flags: {
      ...ON,
      to: 'a person, by the subject of their tokens',
      team: 'everybody of a group',
      issuer: 'whose user it is; default: of your own issuer',
      unmask: 'classes to show in clear, as pii.name,pii.identifier; * is all',
      table: 'of a connection: schema.table; default every table',
      grantable: 'they may grant the same on to others',
    },
    remote: true,
    async run(call) {
      const [{ path }, wanted] = [placeOf(call), wantedOf(call.args)]
      const made = (await (await call.client()).request('POST', path, wanted)) as GrantAnswer
      return call.args.flags['json'] ? made : textTable(HEADER, [row(made)])
    },
  },
  'grant remove': {
    usage: 'grant remove PRODUCT | --connection NAME GRANT',
    summary: 'take a grant back, by its id, with what its holder has granted on by it',
    flags: ON,
    remote: true,
    async run(call) {
      const { path, next } = placeOf(call, 'remove')
      const answer = (await (await call.client()).request('DELETE', `${path}/${segment(call, next, 'GRANT')}`)) as Ended
      if (call.args.flags['json']) return answer ?? { ended: [] }
      const ended = (answer?.ended ?? []).map(({ id, subject, whole }) => {
        const who = subject.user === undefined ? `team ${subject.team}` : `user ${subject.user}`
        return `With it ended${whole ? '' : ' a part of'} the grant ${id} of ${who}, which rested on it.`
      })
      return [`The grant ${word(call, next, 'GRANT')} is gone.`, ...ended].join('\n')
    },
  },
}
