-- For wrk: chat bodies of 32 KB with 16 beginnings of 8 KB, each with 8 ends, in turn. The last line is JSON.

local BEGINNINGS = 16
local ENDS = 8
local BODY_BYTES = 32 * 1024
local BEGINNING_BYTES = 8 * 1024
local LINE = [[The quick brown fox says \"jump\" over the lazy dog, again and again.\n]]

local requests = {}
local turn = 0

local function text(start, bytes)
    local repeated = start .. LINE:rep(math.floor((bytes - #start) / #LINE))
    return repeated .. ("x"):rep(bytes - #repeated)
end

function init(args)
    wrk.method = "POST"
    wrk.headers["content-type"] = "application/json"
    local head = [[{"messages": [{"role": "system", "content": "]]
    local middle = [["}, {"role": "user", "content": "]]
    local tail = [["}], "model": "m", "temperature": 0.7, "max_tokens": 64, "stream": false}]]
    for ending = 1, ENDS do
        for beginning = 1, BEGINNINGS do
            local system = text("Beginning " .. beginning .. ". ", BEGINNING_BYTES)
            local rest_bytes = BODY_BYTES - #head - #system - #middle - #tail
            local user = text("Question " .. ending .. ". ", rest_bytes)
            wrk.body = head .. system .. middle .. user .. tail
            requests[#requests + 1] = wrk.format(nil, "/v1/chat/completions")
        end
    end
end

function request()
    turn = turn % #requests + 1
    return requests[turn]
end

function done(summary, latency)
    local errors = summary.errors
    local failed = errors.connect + errors.read + errors.write + errors.status + errors.timeout
    io.write(string.format('{"requests": %d, "failed": %d, "p50_us": %d}\n',
        summary.requests, failed, latency:percentile(50)))
end
