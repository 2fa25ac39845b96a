/** Where connections of tenants may go. Decided once per connection attempt, and the address is then used as it is. */
import { lookup } from 'node:dns/promises'
import { BlockList, isIP, SocketAddress } from 'node:net'
import { type NetworkPolicy, SluiceError } from '@sluice/sdk'

export interface NetworkRules {
  readonly allowLoopback: boolean
  /** Private ranges that are allowed, as CIDR. */
  readonly allow: readonly string[]
  readonly allowCleartextPasswords: boolean
  /** The platform's own servers, by name or address, which nobody may connect to. */
  readonly ownEndpoints: () => readonly { readonly address: string; readonly port: number }[]
}

type Ranges = readonly (readonly [string, number, 'ipv4' | 'ipv6'])[]

/**
 * Link-local (cloud metadata among it), multicast, unspecified and reserved addresses: never a data source. Nor are
 * IPv6 addresses that carry an IPv4 address to a relay (IPv4-compatible, SIIT, Teredo, 6to4): they would lead past the
 * rules.
 */
const NEVER: Ranges = [
  ['0.0.0.0', 8, 'ipv4'],
  ['169.254.0.0', 16, 'ipv4'],
  ['192.0.0.0', 24, 'ipv4'],
  ['224.0.0.0', 3, 'ipv4'],
  ['::', 96, 'ipv6'],
  ['::ffff:0:0:0', 96, 'ipv6'],
  ['2001::', 32, 'ipv6'],
  ['2002::', 16, 'ipv6'],
  ['fec0::', 10, 'ipv6'],
  ['fe80::', 10, 'ipv6'],
  ['ff00::', 8, 'ipv6'],
  ['fd00:ec2::254', 128, 'ipv6'],
]

const LOOPBACK: Ranges = [
  ['127.0.0.0', 8, 'ipv4'],
  ['::1', 128, 'ipv6'],
]

/** RFC 1918, RFC 6598, RFC 4193; and NAT64 (RFC 6052, RFC 8215), whose translator may reach inner IPv4 addresses. */
const PRIVATE: Ranges = [
  ['10.0.0.0', 8, 'ipv4'],
  ['172.16.0.0', 12, 'ipv4'],
  ['192.168.0.0', 16, 'ipv4'],
  ['100.64.0.0', 10, 'ipv4'],
  ['fc00::', 7, 'ipv6'],
  ['64:ff9b::', 96, 'ipv6'],
  ['64:ff9b:1::', 48, 'ipv6'],
]

export function createNetworkPolicy(rules: NetworkRules): NetworkPolicy {
  const never = blockList(NEVER)
  const loopback = blockList(LOOPBACK)
  const inner = blockList(PRIVATE)
  const allowed = new BlockList()
  for (const range of rules.allow) addCidr(allowed, range)
  const isOwn = async (address: string, family: 'ipv4' | 'ipv6', port: number): Promise<boolean> => {
    const hosts = rules.ownEndpoints().filter((own) => own.port === port)
    const own = (await Promise.all(hosts.map(({ address: host }) => addressesOf(host)))).flat()
    return own.some((one) => sameHost(one, address, loopback, family))
  }
  const isAllowed = async (address: string, family: 'ipv4' | 'ipv6', port: number): Promise<boolean> => {
    if (never.check(address, family) && !loopback.check(address, family)) return false
    if (await isOwn(address, family, port)) return false
    if (allowed.check(address, family)) return true
    if (loopback.check(address, family)) return rules.allowLoopback
    return !inner.check(address, family)
  }
  return {
    async resolve(host, port, signal) {
      signal.throwIfAborted()
      const found = await resolveOnce(host)
      const [address, family] = canonical(found.address)
      if (await isAllowed(address, family === 4 ? 'ipv4' : 'ipv6', port)) return { address, family }
      throw new SluiceError('PERMISSION', 'connections to that address are not allowed', {
        code: 'address_refused',
        remedy: 'Use a public address, or let the operator allow the range under network.allow.',
      })
    },
    allowsCleartextPassword(address) {
      return rules.allowCleartextPasswords || loopback.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4')
    },
  }
}

/** A server that listens on a loopback address, or on every address, is met at each loopback address. */
function sameHost(own: string, address: string, loopback: BlockList, family: 'ipv4' | 'ipv6'): boolean {
  if (own === address) return true
  const isLocal = own === '0.0.0.0' || own === '::' || loopback.check(own, isIP(own) === 6 ? 'ipv6' : 'ipv4')
  return isLocal && loopback.check(address, family)
}

async function addressesOf(host: string): Promise<readonly string[]> {
  if (isIP(host)) return [canonical(host)[0]]
  try {
    return (await lookup(host, { all: true })).map((found) => canonical(found.address)[0])
  } catch {
    return []
  }
}

async function resolveOnce(host: string): Promise<{ readonly address: string }> {
  if (isIP(host)) return { address: host }
  if (!/^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$/i.test(host)) throw unresolvable()
  try {
    return await lookup(host)
  } catch (cause) {
    throw unresolvable(cause)
  }
}

function unresolvable(cause?: unknown): SluiceError {
  return new SluiceError('TRANSIENT', 'the host name cannot be resolved', {
    code: 'host_not_found',
    remedy: 'Check the host name, and the DNS that this server uses.',
    cause,
  })
}

/**
 * The one spelling of an address, by which two are compared: an IPv6 address has many, and `::ffff:a00:1` is 10.0.0.1.
 */
function canonical(address: string): readonly [string, 4 | 6] {
  if (isIP(address) !== 6) return [address, 4]
  const [unscoped = ''] = address.split('%')
  const spelled = new SocketAddress({ address: unscoped, family: 'ipv6' }).address
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/.exec(spelled)
  if (mapped) return [mapped[1] as string, 4]
  return [unscoped === address ? spelled : address, 6]
}

function blockList(ranges: Ranges): BlockList {
  const list = new BlockList()
  for (const [network, prefix, family] of ranges) list.addSubnet(network, prefix, family)
  return list
}

function addCidr(list: BlockList, range: string): void {
  const [network = '', prefix] = range.split('/')
  const family = isIP(network)
  const bits = Number(prefix ?? (family === 6 ? 128 : 32))
  if (family === 0 || !Number.isInteger(bits)) {
    throw new SluiceError('CONFIG', `"${range}" under network.allow is no address range`, {
      code: 'invalid_config',
      remedy: 'Write a range as 10.1.0.0/16.',
    })
  }
  list.addSubnet(network, bits, family === 6 ? 'ipv6' : 'ipv4')
}
