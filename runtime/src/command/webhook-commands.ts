import { required } from './arguments.ts'
import { type Command, type CommandCall, gone, segment, word } from './command.ts'
import { textTable } from './text-table.ts'

interface WebhookAnswer {
  readonly id: string
  readonly name: string
  readonly host: string
  readonly state: string
  readonly reason: string | null
  readonly epoch: number | null
  readonly error_code: string | null
  readonly delivered_at: string | null
  readonly created_by: string
  readonly signing_key?: string | null
}

interface LetterAnswer {
  readonly delivery: string
  readonly sequence: number
  readonly epoch: number | null
  readonly attempts: number
  readonly status: number | null
  readonly error_code: string
  readonly created_at: string
  readonly redelivered_at: string | null
}

const HEADER = ['name', 'host', 'state', 'epoch', 'delivered', 'newest try', 'by', 'id']
const LETTER_HEADER = ['sequence', 'epoch', 'attempts', 'answer', 'given up', 'delivered again', 'delivery']

function row({ name, host, state, reason, epoch, delivered_at, error_code, created_by, id }: WebhookAnswer) {
  const told = reason === null ? state : `${state}: ${reason}`
  return [name, host, told, epoch ?? 'none', delivered_at ?? 'never', error_code ?? 'ok', created_by, id]
}

function letterRow({
  sequence,
  epoch,
  attempts,
  status,
  error_code,
  created_at,
  redelivered_at,
  delivery,
}: LetterAnswer) {
  return [sequence, epoch ?? 'none', attempts, status ?? error_code, created_at, redelivered_at ?? 'no', delivery]
}

const pathOf = (call: CommandCall): string => `/api/v1/products/${segment(call, 0, 'PRODUCT')}/webhooks`
const onePathOf = (call: CommandCall): string => `${pathOf(call)}/${segment(call, 1, 'ID')}`

/** What answers with the webhook. */
function told(name: string, summary: string, method: 'GET' | 'POST', under: string): Record<string, Command> {
  return {
    [`webhook ${name}`]: {
      usage: `webhook ${name} PRODUCT ID`,
      summary,
      remote: true,
      async run(call) {
        const found = (await (await call.client()).request(method, `${onePathOf(call)}${under}`)) as WebhookAnswer
        return call.args.flags['json'] ? found : textTable(HEADER, [row(found)])
      },
    },
  }
}

export const WEBHOOK_COMMANDS: Readonly<Record<string, Command>> = {
  'webhook create': {
    usage: 'webhook create PRODUCT NAME --to https://… --key ID [--from now|start]',
    summary: 'have a product’s changed rows delivered, in the name of an application key of yours',
    flags: {
      to: 'the address',
      key: 'the id of the key: what it may be shown is delivered, and the webhook ends with it',
      from: 'now: what comes (default); start: all rows there are, then what comes',
    },
    remote: true,
    async run(call) {
      const wanted = {
        name: word(call, 1, 'NAME'),
        url: required(call.args, 'to'),
        application_key: required(call.args, 'key'),
        from: call.args.flags['from'] ?? 'now',
      }
      const made = (await (await call.client()).request('POST', pathOf(call), wanted)) as WebhookAnswer
      if (call.args.flags['json']) return made
      const key = made.signing_key ? `\nThe signing key, which is not shown again: ${made.signing_key}` : ''
      return `${textTable(HEADER, [row(made)])}${key}`
    },
  },
  'webhook list': {
    usage: 'webhook list PRODUCT',
    summary: 'where changes of a product are delivered, newest first',
    remote: true,
    async run(call) {
      const found = (await (await call.client()).list(pathOf(call))) as WebhookAnswer[]
      return call.args.flags['json'] ? found : textTable(HEADER, found.map(row))
    },
  },
  ...told('show', 'how far its receiver is, and why it delivers no more', 'GET', ''),
  ...told('pause', 'deliver nothing until it is resumed', 'POST', '/pause'),
  ...told('resume', 'go on where it was paused', 'POST', '/resume'),
  ...told('redeliver', 'go on with the delivery that was given up', 'POST', '/redeliver'),
  'webhook test': {
    usage: 'webhook test PRODUCT ID',
    summary: 'send a signed message without rows, and tell what its receiver answers',
    remote: true,
    async run(call) {
      const answer = (await (await call.client()).request('POST', `${onePathOf(call)}/test`)) as {
        readonly ok: boolean
        readonly status: number | null
        readonly error_code: string | null
      }
      if (call.args.flags['json']) return answer
      return answer.ok ? `It was acknowledged: ${answer.status}.` : `It failed: ${answer.status ?? answer.error_code}.`
    },
  },
  'webhook dead-letters': {
    usage: 'webhook dead-letters PRODUCT ID',
    summary: 'deliveries that were given up, newest first',
    remote: true,
    async run(call) {
      const found = (await (await call.client()).list(`${onePathOf(call)}/dead-letters`)) as LetterAnswer[]
      return call.args.flags['json'] ? found : textTable(LETTER_HEADER, found.map(letterRow))
    },
  },
  'webhook delete': {
    usage: 'webhook delete PRODUCT ID',
    summary: 'deliver nothing there any more',
    remote: true,
    async run(call) {
      await (await call.client()).request('DELETE', onePathOf(call))
      return gone(call, 'It is told nothing any more.')
    },
  },
}
