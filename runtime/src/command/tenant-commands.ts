import { required } from './arguments.ts'
import { type Command, gone, segment, word } from './command.ts'
import { textTable } from './text-table.ts'

interface TenantAnswer {
  readonly id: string
  readonly display_name: string
  readonly tier: string
  readonly status: string
  readonly usage: { readonly products: number; readonly connections: number; readonly storage_bytes: number }
}

const row = ({ id, display_name, tier, status, usage }: TenantAnswer) => [
  id,
  display_name,
  tier,
  status,
  usage.products,
  usage.connections,
  usage.storage_bytes,
]
const HEADER = ['tenant', 'name', 'tier', 'status', 'products', 'connections', 'bytes']

export const TENANT_COMMANDS: Readonly<Record<string, Command>> = {
  'tenant create': {
    usage: 'tenant create SLUG --tier TIER [--name TEXT]',
    summary: 'make a tenant and provision what it needs',
    flags: { tier: 'free, standard or enterprise', name: 'a name for people; default: the slug' },
    remote: true,
    async run(call) {
      const slug = word(call, 0, 'SLUG')
      const { args } = call
      const body = { slug, display_name: args.flags['name'] ?? slug, tier: required(args, 'tier') }
      const made = (await (await call.client()).request('POST', '/api/v1/tenants', body)) as TenantAnswer
      return args.flags['json'] ? made : textTable(HEADER, [row(made)])
    },
  },
  'tenant list': {
    usage: 'tenant list',
    summary: 'all tenants, newest first',
    remote: true,
    async run(call) {
      const tenants = (await (await call.client()).list('/api/v1/tenants')) as TenantAnswer[]
      return call.args.flags['json'] ? tenants : textTable(HEADER, tenants.map(row))
    },
  },
  'tenant show': {
    usage: 'tenant show SLUG',
    summary: 'a tenant with its limits, usage and resources',
    remote: true,
    run: async (call) => (await call.client()).request('GET', `/api/v1/tenants/${segment(call, 0, 'SLUG')}`),
  },
  'tenant rotate-key': {
    usage: 'tenant rotate-key SLUG',
    summary: 'seal the secrets of its connections with a new key, and destroy the former one',
    remote: true,
    async run(call) {
      const path = `/api/v1/tenants/${segment(call, 0, 'SLUG')}/rotate-key`
      const answer = (await (await call.client()).request('POST', path)) as { readonly resealed_secrets: number }
      return call.args.flags['json'] ? answer : `${answer.resealed_secrets} secrets are under a new key.`
    },
  },
  'keys rotate-master': {
    usage: 'keys rotate-master',
    summary: 'wrap all tenants’ keys under a new master key; back up the folder of keys afterwards',
    remote: true,
    async run(call) {
      const answer = (await (await call.client()).request('POST', '/api/v1/keys/rotate-master')) as {
        readonly master_key_id: string
        readonly rewrapped_keys: number
      }
      if (call.args.flags['json']) return answer
      return `${answer.rewrapped_keys} keys are under the master key ${answer.master_key_id}. Back up the folder of keys.`
    },
  },
  'tenant delete': {
    usage: 'tenant delete SLUG --confirm SLUG [--abandon TYPES]',
    summary: 'remove a tenant with everything it has',
    flags: {
      confirm: 'the slug once more',
      abandon: 'endpoints whose rows may stay where no store is loaded',
    },
    remote: true,
    async run(call) {
      const confirm = encodeURIComponent(required(call.args, 'confirm'))
      const { abandon } = call.args.flags
      const query = `confirm=${confirm}${typeof abandon === 'string' ? `&abandon=${encodeURIComponent(abandon)}` : ''}`
      await (await call.client()).request('DELETE', `/api/v1/tenants/${segment(call, 0, 'SLUG')}?${query}`)
      return gone(call, `The tenant ${word(call, 0, 'SLUG')} is gone.`)
    },
  },
}
