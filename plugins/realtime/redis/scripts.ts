/**
 * The steps that have to be one, as scripts of the server. Each touches only the keys that it is given, so that it runs
 * on a cluster too, where those of one call lie on one node.
 */
import { createHash } from 'node:crypto'

export interface Script {
  readonly lua: string
  readonly sha: string
}

function script(lua: string): Script {
  return { lua, sha: createHash('sha1').update(lua).digest('hex') }
}

/** Puts a text in the place of another; '' stands for no key. 1 where it was the expected one, else 0. */
export const SWAP = script(`
local current = redis.call('GET', KEYS[1])
if (current or '') ~= ARGV[1] then return 0 end
if ARGV[2] == '' then redis.call('DEL', KEYS[1]) else redis.call('SET', KEYS[1], ARGV[2]) end
return 1`)

const VERSIONS = `
local HEADER, DELETED = 14, 4294967295
local aborted = {}
local function read_aborted(text)
  for number in string.gmatch(text, '%d+') do aborted[tonumber(number)] = true end
end
local function each(record, visit)
  local position, size = 1, #record
  while position <= size do
    local write, _, names, length = struct.unpack('>I6I2I2I4', record, position)
    local start = position + HEADER
    local finish = start + names
    if length ~= DELETED then finish = finish + length end
    visit(write, string.sub(record, start, start + names - 1), length == DELETED, string.sub(record, position, finish - 1))
    position = finish
  end
end`

/**
 * Puts versions of one write beside those that count. Arguments: the write, the newest committed one, the floor, the
 * aborted ones, the time to live in ms, the layout; then for each key the row's identity and '+' with its value, or '-'.
 * An error where a newer write has been here: this writer was overtaken.
 */
export const PUT = script(`${VERSIONS}
local own, committed, floor = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
read_aborted(ARGV[4])
local ttl, layout = ARGV[5], tonumber(ARGV[6])
local function version_of(identity, body)
  if string.byte(body) == 45 then return struct.pack('>I6I2I2I4', own, layout, #identity, DELETED) .. identity end
  return struct.pack('>I6I2I2I4', own, layout, #identity, #body - 1) .. identity .. string.sub(body, 2)
end
-- What of a record stays beside the row's new version; nil where a newer write has been here.
local function kept_of(record, identity)
  local kept, decided, overtaken = {}, {}, false
  each(record, function(write, name, is_deleted, bytes)
    if write > own then
      overtaken = true
    elseif write == own then
      if name ~= identity then kept[#kept + 1] = bytes end
    elseif not decided[name] and write <= committed and write >= floor and not aborted[write] then
      decided[name] = true
      if not is_deleted then kept[#kept + 1] = bytes end
    end
  end)
  if not overtaken then return table.concat(kept) end
end
for index = 1, #KEYS do
  local key, identity, body = KEYS[index], ARGV[5 + index * 2], ARGV[6 + index * 2]
  local record = redis.call('GET', key)
  local is_delete = string.byte(body) == 45
  local kept = ''
  if record then kept = kept_of(record, identity) end
  if not kept then return redis.error_reply('OVERTAKEN by a newer write') end
  if is_delete and kept == '' then
    if record then redis.call('DEL', key) end
  else
    redis.call('SET', key, version_of(identity, body) .. kept, 'PX', ttl)
  end
end
return #KEYS`)

/**
 * Removes what counts no more; leaves whatever was written after the given commit. Arguments: the newest committed
 * write, the floor, the aborted ones.
 */
export const COMPACT = script(`${VERSIONS}
local committed, floor = tonumber(ARGV[1]), tonumber(ARGV[2])
read_aborted(ARGV[3])
for _, key in ipairs(KEYS) do
  local record = redis.call('GET', key)
  if record then
    local kept, decided = {}, {}
    each(record, function(write, name, is_deleted, bytes)
      if write > committed then
        kept[#kept + 1] = bytes
      elseif not decided[name] and write >= floor and not aborted[write] then
        decided[name] = true
        if not is_deleted then kept[#kept + 1] = bytes end
      end
    end)
    local text = table.concat(kept)
    if text == '' then
      redis.call('DEL', key)
    elseif #text < #record then
      redis.call('SET', key, text, 'KEEPTTL')
    end
  end
end
return #KEYS`)

/** Lets keys live for so many ms from now. */
export const RENEW = script(`
local call, ttl = redis.call, ARGV[1]
for index = 1, #KEYS do call('PEXPIRE', KEYS[index], ttl) end
return #KEYS`)
