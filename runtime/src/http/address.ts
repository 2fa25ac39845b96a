/** What counts as one party: an address of IPv4, or the /64 of one of IPv6, which belongs to one network. */
export function networkOf(address: string): string {
  const plain = address.replace(/^::ffff:/, '')
  return plain.includes(':') ? network(plain) : plain
}

function network(address: string): string {
  const [head = '', tail] = address.split('::')
  const groups = head.split(':').filter(Boolean)
  if (tail === undefined) return groups.slice(0, 4).join(':')
  const rest = tail.split(':').filter(Boolean)
  const zeros = Array.from({ length: Math.max(0, 8 - groups.length - rest.length) }, () => '0')
  return [...groups, ...zeros, ...rest].slice(0, 4).join(':')
}
